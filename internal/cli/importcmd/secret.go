package importcmd

import (
	"net/url"
	"path"
	"regexp"
	"slices"
	"strings"
	"sync"

	"github.com/daeace23/prober/handlers/shipped"
	"github.com/daeace23/prober/plugin/schema"
)

// secretWords are the words by which the name of a value says that it is a secret.
const secretWords = `passw|passphrase|pwd|secret|token|api[-_]?key|access[-_]?key|private[-_ ]?key|credential|authorization|cookie|signature|session`

// secretInText matches the name of a secret anywhere in a text.
var secretInText = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`(?i)(` + secretWords + `)`) })

// secretAssignment matches a secret with its name, a login of HTTP, and a user in a URL.
var secretAssignment = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`(?i)((` + secretWords + `)[\w-]*|(^|[^a-z0-9])(auth|key|pass|pin|pw|otp|sig|jwt))[\]"']*\s*[:=]\s*\S|\b(bearer|basic)\s+[\w.+/=~-]{6}|://[^/\s@?#]+@`)
})

// secretName matches the name of a header or of a parameter of a URL that has a secret.
var secretName = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`(?i)(` + secretWords + `|auth|key$|^(pass|pin|pw|otp|sig|jwt)$)`)
})

// loginCommand matches a line that logs in by a protocol such as SMTP, POP3, IMAP or RESP.
var loginCommand = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`(?i)\b(auth|authenticate|authinfo|pass|login|identify|oper)\b`)
})

// isSecretName reports whether the value of a header or a parameter with that name is a secret.
func isSecretName(name string) bool {
	name = unescaped(name)
	if strings.EqualFold(name, "authSource") { // the database of the users of MongoDB
		return false
	}
	if secretName().MatchString(name) {
		return true
	}
	s := httpcheckSchema()
	return s != nil && !strings.ContainsAny(name, ".[]") && s.IsSecret("headers."+name)
}

// isSecretParameter reports whether NAME=VALUE of a URL is a secret.
func isSecretParameter(parameter string) bool {
	name, value, _ := strings.Cut(parameter, "=")
	return value != "" && isSecretName(name) || assignsSecret(value)
}

var httpcheckSchema = sync.OnceValue(func() *schema.Schema {
	all, err := shipped.Plugins()
	if err != nil {
		return nil // a test of the plugins rules it out
	}
	for _, f := range all {
		if f.Manifest.Name == "httpcheck" {
			return f.Manifest.Config
		}
	}
	return nil
})

// unescaped returns text without the escapes of a URL, if it has valid ones.
func unescaped(text string) string {
	if plain, err := url.QueryUnescape(text); err == nil {
		return plain
	}
	return text
}

// maxScanned is the length of the texts above which they are taken for secrets, in bytes.
const maxScanned = 16 << 10

// assignsSecret reports whether a text has a secret with its name.
func assignsSecret(text string) bool { return matches(secretAssignment(), text) }

// matches reports whether re matches a text, as it is or without the escapes of a URL. A long text matches.
func matches(re *regexp.Regexp, text string) bool {
	if len(text) > maxScanned {
		return true
	}
	return re.MatchString(text) || strings.ContainsAny(text, "%+") && re.MatchString(unescaped(text))
}

// mentionsSecret reports whether a text that people write freely, such as a body, may have a secret.
func mentionsSecret(text string) bool {
	return matches(secretInText(), text) || assignsSecret(text)
}

// urlHasSecret reports whether an address has a user, or a secret in its path, query or fragment.
func urlHasSecret(text string) bool {
	if !strings.Contains(text, "://") {
		return false
	}
	u, err := url.Parse(text)
	if err != nil {
		return assignsSecret(text)
	}
	return u.User != nil || pathHasSecret(u) || slices.ContainsFunc(strings.Split(u.RawQuery, "&"), isSecretParameter) || isSecretParameter(u.Fragment)
}

// pathHasSecret reports whether a path has parameters with secrets, such as /a;token=x.
func pathHasSecret(u *url.URL) bool { return strings.Contains(u.Path, "=") && assignsSecret(u.Path) }

// secretOptions has the options with passwords or with data to send, of commands without long names.
var secretOptions = map[string]string{
	"check_http": "abkP", "check_curl": "abkP", "check_mysql": "p", "check_mysql_query": "p", "check_pgsql": "p", "check_ldap": "P", "check_ldaps": "P", "check_radius": "p", "check_snmp": "CAX",
	"check_tcp": "s", "check_udp": "s", "check_clamd": "s", "check_ftp": "s", "check_imap": "s", "check_pop": "s", "check_simap": "s", "check_spop": "s", "check_ssmtp": "s", "check_jabber": "s", "check_nntp": "s",
	"check_smtp": "PC", "check_disk_smb": "p", "check_nt": "s",
}

// commandHasSecret reports whether a command line may have a secret.
func commandHasSecret(words []string) bool {
	for _, w := range words {
		isOption := len(w) > 1 && w[0] == '-' && w[1] != '-'
		if mentionsSecret(w) || isOption && strings.Contains(secretOptions[path.Base(words[0])], w[1:2]) {
			return true
		}
	}
	return false
}

// withoutReferences returns text without the references of p, and without the names of secrets before them.
func (p *plan) withoutReferences(text string) string {
	if !strings.Contains(text, "${") {
		return text
	}
	const mark = "\x00"
	text = replaced().ReplaceAllStringFunc(text, func(r string) string {
		if p.references[r] {
			return mark
		}
		return r
	})
	return strings.ReplaceAll(referredName().ReplaceAllString(text, ""), mark, "")
}

// replaced matches a reference to a secret, and a variable of a journey.
var replaced = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`\$\{(?:(?:file|env):[^}]+|[A-Za-z_]\w*)\}`)
})

// referredName matches the name of a secret whose value was a reference.
var referredName = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`(?i)[\w-]*(` + secretWords + `)[\w-]*(\W{0,8}(bearer|basic)\s+|[^\w\x00]{0,8})\x00(</[\w:-]+>)?`)
})

// guard takes secrets out of the action of a probe.
type guard struct {
	p       *plan
	at      position
	name    string // begins the names of files
	login   bool   // a step has logged in, so that later ones may have passwords
	refused bool   // a secret is where no reference can be
}

// guarded returns the action of a probe with references in place of secrets. All actions pass through it, so
// that an importer cannot forget to look for secrets. ok is false, and reported, if a secret is where no
// reference can be.
func (p *plan) guarded(at position, name string, action fields) (made fields, ok bool) {
	g := &guard{p: p, at: at, name: name}
	made = slices.Clone(action)
	for i, f := range made {
		body, _ := f.value.(fields)
		if f.key != "plugin" {
			g.refused = g.refused || fieldsHaveSecret(body)
			continue
		}
		body = slices.Clone(body)
		for j, x := range body {
			if config, ok := x.value.(fields); ok && x.key == "config" {
				body[j].value = g.fields(config)
			}
		}
		made[i].value = body
	}
	if g.refused {
		p.noEqual(at, "it is not imported: a command or an address may have a secret")
	}
	return made, !g.refused
}

// fieldsHaveSecret reports whether fields that cannot have references have a secret.
func fieldsHaveSecret(f fields) bool {
	for _, x := range f {
		switch v := x.value.(type) {
		case fields:
			if fieldsHaveSecret(v) {
				return true
			}
		case []string:
			if x.key == "command" && commandHasSecret(v) || slices.ContainsFunc(v, assignsSecret) {
				return true
			}
		case string:
			if !strings.HasSuffix(x.key, "File") && assignsSecret(v) {
				return true
			}
		}
	}
	return false
}

// public has the fields of plugins that are not secret: names, and what a response must have.
var public = map[string]bool{
	"authentication": true, "credentials": true, "expect": true, "failIfBodyMatchesRegexp": true, "failIfBodyNotMatchesRegexp": true, "failIfHeaderMatches": true, "failIfHeaderNotMatches": true,
	"jsonPath": true, "queryName": true, "serverName": true, "tokenUrl": true, "validateAnswerRrs": true, "validateAuthorityRrs": true, "validateAdditionalRrs": true,
}

// fields returns the config of a plugin with references in place of secrets.
func (g *guard) fields(f fields) fields {
	made := slices.Clone(f)
	for i, x := range made {
		if !public[x.key] {
			made[i].value = g.value(x.key, x.value)
		}
	}
	return made
}

func (g *guard) value(key string, value any) any {
	switch v := value.(type) {
	case string:
		return g.text(key, v)
	case fields:
		if !isMapOfUser(key) {
			return g.fields(v)
		}
		made := slices.Clone(v)
		for i, x := range made {
			made[i].value = g.value(x.key, x.value)
		}
		return made
	case []fields:
		return guardList(g, key, v)
	case []string:
		return guardList(g, key, v)
	case []any:
		return guardList(g, key, v)
	}
	return value
}

// isMapOfUser reports whether a field of a plugin has names that its schema does not have.
func isMapOfUser(key string) bool {
	return key == "headers" || key == "proxyConnectHeader" || key == "authorization" || key == "labels" || key == "parameters"
}

func guardList[T any](g *guard, key string, list []T) []T {
	made := slices.Clone(list)
	for i, x := range made {
		if v, ok := g.value(key, x).(T); ok {
			made[i] = v
		}
	}
	return made
}

// isReferred reports whether a text is a reference of p, with at most the scheme of a login before it.
func (p *plan) isReferred(text string) bool {
	for _, scheme := range []string{"Basic ", "Bearer ", "Token "} {
		if len(text) > len(scheme) && strings.EqualFold(text[:len(scheme)], scheme) {
			text = text[len(scheme):]
			break
		}
	}
	return p.references[text]
}

// text returns a reference if a text has a secret.
func (g *guard) text(key, text string) string {
	rest := g.p.withoutReferences(text)
	has := assignsSecret(rest) || isSecretName(key) && strings.TrimSpace(rest) != "" && !g.p.isReferred(text)
	switch key {
	case "url":
		g.refused = g.refused || has || urlHasSecret(rest)
		return text
	case "body":
		has = has || mentionsSecret(rest)
	case "send":
		g.login = g.login || loginCommand().MatchString(rest)
		has = has || mentionsSecret(rest) || g.login && strings.TrimSpace(rest) != ""
	}
	if !has {
		return text
	}
	what := "the value of " + key
	if key == "body" {
		what = "the body of the request"
	}
	return g.p.secretReferenceOf(g.at, g.name+"-"+key, what, text)
}
