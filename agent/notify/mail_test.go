package notify_test

import (
	"bufio"
	"context"
	"fmt"
	"log/slog"
	"net"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/daeace23/prober/agent/notify"
)

// smarthost is a mail server for one connection at a time. answers replaces its responses by command.
type smarthost struct {
	answers map[string]string
	data    string
	heard   []string
}

func (s *smarthost) serve(c net.Conn) {
	defer c.Close()
	say := func(text string) { _, _ = fmt.Fprint(c, text+"\r\n") }
	in := bufio.NewReader(c)
	say("220 mx.example ESMTP")
	for {
		line, err := in.ReadString('\n')
		if err != nil {
			return
		}
		line = strings.TrimRight(line, "\r\n")
		s.heard = append(s.heard, line)
		verb, _, _ := strings.Cut(line, " ")
		answer, ok := s.answers[line]
		if !ok {
			answer, ok = s.answers[verb]
		}
		switch {
		case ok:
			say(answer)
		case verb == "EHLO":
			say("250-mx.example\r\n250 SIZE 1000000")
		case verb == "DATA":
			say("354 go on")
			s.data = ""
			for {
				line, err := in.ReadString('\n')
				if err != nil {
					return
				}
				if line == ".\r\n" {
					break
				}
				s.data += strings.TrimPrefix(line, ".")
			}
			say("250 queued")
		case verb == "QUIT":
			say("221 bye")
			return
		default:
			say("250 ok")
		}
	}
}

const mailTo = "mail: {to: [Ops <ops@example.org>, two@example.org], from: prober@example.org, smarthost: 'mx.example:25', tls: none}"

// newMail runs a notifier that sends mail to s. It must be called in a bubble.
func newMail(t *testing.T, s *smarthost, fields string) *world {
	w := newWorld(t, "")
	dialed := w.cfg
	dialed.Dial = func(context.Context, string, string) (net.Conn, error) {
		here, there := net.Pipe()
		go s.serve(there)
		return here, nil
	}
	dialed.Log = slog.New(slog.NewTextHandler(w.log, nil))
	w.stop()
	w.cfg, w.conf = dialed, parse(t, "notify: {receivers: [{name: ops, "+fields+"}]}")
	w.run()
	return w
}

// sentMail returns the mail about a probe whose target sent text.
func sentMail(t *testing.T, text string) string {
	s := &smarthost{}
	w := newMail(t, s, mailTo)
	w.setStateOf("web", "uid", failure, text)
	time.Sleep(time.Minute)
	synctest.Wait()
	if r := w.Status().Items[0]; r.Delivered != 1 {
		t.Fatalf("%+v", r)
	}
	return s.data
}

func TestMailAnswers(t *testing.T) {
	for name, c := range map[string]struct {
		fields  string
		answers map[string]string
		state   string
		text    string
	}{
		"taken":               {mailTo, nil, "ok", ""},
		"one address refused": {mailTo, map[string]string{"RCPT TO:<two@example.org>": "550 no such user"}, "ok", ""},
		"all refused":         {mailTo, map[string]string{"RCPT": "550 no such user"}, "refused", `"Ops" <ops@example.org>: 550 "no such user"`},
		"later":               {mailTo, map[string]string{"DATA": "451 try again later"}, "failing", `451 "try again later"`},
		"no STARTTLS":         {strings.Replace(mailTo, "tls: none", "tls: starttls", 1), nil, "refused", "the smarthost does not offer STARTTLS; tls: none sends in the clear"},
		"flood":               {mailTo, map[string]string{"EHLO": strings.Repeat("250-"+strings.Repeat("x", 500)+"\r\n", 1000) + "250 x"}, "failing", ""},
		"silence":             {mailTo, map[string]string{"MAIL": "250-"}, "failing", "no answer within 30s"},
		"no protocol":         {mailTo, map[string]string{"EHLO": "\x1b[31mHTTP/1.1 400", "HELO": "\x1b[31mHTTP/1.1 400"}, "failing", ""},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newMail(t, &smarthost{answers: c.answers}, c.fields)
				w.setState("web", failure)
				time.Sleep(45 * time.Second)
				r := w.Status().Items[0]
				if r.State != c.state || c.text != "" && r.Error != c.text {
					t.Errorf("%+v", r)
				}
				checkHarmless(t, "error", r.Error, false)
				if name == "one address refused" && r.Answer != `250 taken by mx.example:25, but not for <two@example.org>: 550 "no such user"` {
					t.Error(r.Answer)
				}
			})
		})
	}
}

// Mails about the same probes form one thread.
func TestMailThreads(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &smarthost{}
		w := newMail(t, s, mailTo)
		var threads, ids []string
		note := func() {
			time.Sleep(2 * time.Minute)
			synctest.Wait()
			for line := range strings.SplitSeq(s.data, "\r\n") {
				if text, ok := strings.CutPrefix(line, "References: "); ok {
					threads = append(threads, text)
				}
				if text, ok := strings.CutPrefix(line, "Message-ID: "); ok {
					ids = append(ids, text)
				}
			}
		}
		w.setState("web", failure)
		note()
		w.setState("web", ok)
		note()
		if len(threads) != 2 || threads[0] != threads[1] || ids[0] == ids[1] || !strings.Contains(s.data, "web/app readiness succeeds again after 2 min") {
			t.Errorf("%q %q\n%s", threads, ids, s.data)
		}
	})
}

// newRealNotifier runs a notifier with one receiver over real sockets.
func newRealNotifier(t *testing.T, receiver string) (*notify.Notifier, <-chan struct{}) {
	n := notify.New(notify.Config{Log: slog.New(slog.DiscardHandler)})
	n.Set("prober.yaml", parse(t, "notify: {receivers: ["+receiver+"]}"))
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() { n.Run(ctx) })
	t.Cleanup(func() {
		cancel()
		running.Wait()
	})
	return n, ctx.Done()
}
