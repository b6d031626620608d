package importcmd

import (
	"cmp"
	"strings"
)

// kumaNotification is a notification. The first monitor with it makes the receiver.
type kumaNotification struct {
	o        *object
	isUsed   bool
	receiver string // its name; "" for none
}

// receiverOf returns the name of the receiver of a notification; "" if there is none.
func (k *kuma) receiverOf(n *kumaNotification) string {
	if n.isUsed {
		return n.receiver
	}
	n.isUsed = true
	o, name := n.o, n.o.text("name")
	o.ignore("a monitor names its notifications", "id", "userId", "user_id", "isDefault")
	c := kumaJSON(o, "config")
	if !o.boolean("active", true) {
		k.p.report(ignored, o.at("active"), "the notification %s is not active", name)
		return ""
	}
	if f := k.receiver(o, c, slug(name, "receiver")); f != nil {
		n.receiver = k.p.addReceiver(o.at(""), name, f)
		c.skip("name", "isDefault", "applyExisting", "id", "userId", "active") // of the notification itself
		c.form()
	}
	o.rest()
	return n.receiver
}

// form reports the fields of a notification that nobody has read. Empty ones, and those about the form of messages,
// change nothing.
func (o *object) form() {
	own := strings.Fields(`slackusername slackiconemo slackbutton slackchannelnotify slackrichmessage mattermostusername mattermosticonurl mattermosticonemo
		mattermostchannel rocketusername rocketiconemo rocketchannel rocketbutton discordUsername discordPrefixMessage discordSuppressNotifications discordUseMessageTemplate discordMessageTemplate discordMessageFormat
		telegramSendSilently telegramProtectContent telegramUseTemplate telegramTemplate telegramTemplateParseMode pagerdutyPriority pagerdutyAutoResolve
		opsgeniePriority customSubject customBody htmlBody ntfyPriority ntfyPriorityDown ntfyIcon ntfyCall ntfyCustomTitle ntfyCustomMessage ntfyUseTemplate gotifyPriority webhookContentType webhookCustomBody`)
	o.ignore("messages have a form of their own", own...)
	o.ignore("the webhook selects the channel", "slackchannel")
	for i := 0; i+1 < len(o.n.Content); i += 2 {
		if name := o.n.Content[i].Value; !o.used[name] && !o.isMeaningful(name) {
			o.used[name] = true
		}
	}
	o.rest()
}

// receiver returns a receiver; nil, and reported, if there is none.
func (k *kuma) receiver(o, c *object, name string) fields {
	at, kind := o.at("config"), c.text("type")
	switch kind {
	case "slack", "mattermost", "rocket.chat":
		return k.p.webhook(at, name, "slack", cmp.Or(c.text("slackwebhookURL"), c.text("mattermostWebhookUrl"), c.text("rocketwebhookURL")))
	case "teams":
		return k.p.webhook(at, name, "teams", c.text("webhookUrl"))
	case "discord":
		return k.p.webhook(at, name, "discord", c.text("discordWebhookUrl"))
	case "telegram":
		return k.p.telegram(at, name, c.text("telegramChatID"), c.text("telegramBotToken"))
	case "PagerDuty":
		return k.p.pagerDuty(at, name, c.text("pagerdutyIntegrationUrl"), c.text("pagerdutyIntegrationKey"))
	case "Opsgenie":
		return k.p.opsgenie(at, name, map[bool]string{true: "https://api.eu.opsgenie.com"}[c.text("opsgenieRegion") == "eu"], c.text("opsgenieApiKey"))
	case "gotify":
		return k.p.gotify(at, name, c.text("gotifyserverurl"), c.text("gotifyapplicationToken"))
	case "matrix":
		return k.p.matrix(at, name, c.text("homeserverUrl"), c.text("internalRoomId"), c.text("accessToken"))
	case "ntfy":
		c.skip("ntfyAuthenticationMethod")
		return k.p.ntfy(at, name, c.text("ntfyserverurl"), c.text("ntfytopic"), c.text("ntfyaccesstoken"))
	case "webhook":
		return k.hook(at, c, name)
	case "smtp":
		return k.mail(at, c, name)
	}
	k.p.noEqual(at, "there is no receiver for %.40q: see docs/alert/message-formats.md", kind)
	return nil
}

// skip counts fields as read.
func (o *object) skip(names ...string) {
	for _, name := range names {
		o.used[name] = true
	}
}

// hook returns a receiver that gets prober's own JSON.
func (k *kuma) hook(at position, c *object, name string) fields {
	k.p.differs(at, "the body is prober's own JSON: see docs/alert/message-formats.md")
	c.skip("httpMethod")
	f := fields{{"format", "json"}, {"urlFile", k.p.secretFile(at, name+"-url", "the URL of the webhook", c.text("webhookURL"))}}
	return hook(k.p.hookHeaders(at, name, f, kumaJSON(c, "webhookAdditionalHeaders").all()))
}

// mail returns a receiver that sends mails.
func (k *kuma) mail(at position, c *object, name string) fields {
	port := c.integer("smtpPort", 25)
	m := &mailer{at: at, name: name, to: strings.Split(c.text("smtpTo"), ","), from: c.text("smtpFrom"), host: c.text("smtpHost"), port: port}
	if cc := c.text("smtpCC"); cc != "" {
		k.p.differs(at, "the addresses of smtpCC are addresses of to")
		m.to = append(m.to, strings.Split(cc, ",")...)
	}
	m.user, m.password = c.text("smtpUsername"), c.text("smtpPassword")
	switch {
	case c.boolean("smtpSecure", false):
		m.tls = "tls"
	case port == 25 && m.user == "":
		m.tls = "none"
	}
	if c.boolean("smtpIgnoreTLSError", false) && m.tls != "none" {
		k.p.noEqual(at, "the certificate of a mail server is verified: set mail.ca of the receiver to its authority")
	}
	return k.p.mail(m)
}
