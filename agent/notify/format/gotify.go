package format

const (
	gotifyProbes = 50
	gotifyBytes  = 32 << 10
)

type gotifyMessage struct {
	Title    string                    `json:"title"`
	Message  string                    `json:"message"`
	Priority int                       `json:"priority"`
	Extras   map[string]map[string]any `json:"extras"`
}

// gotifyPriorities has the priority by state. Phones ring from 4 on, and vibrate from 8 on.
var gotifyPriorities = map[string]int{"failure": 8, "unknown": 6, "warning": 5, "success": 4}

// gotify returns a message in plain text for the server at the URL.
func gotify(in *Input) (*Request, error) {
	body, err := in.renderWithin(gotifyProbes, gotifyBytes, func(m *Message) ([]byte, error) {
		extras := map[string]map[string]any{"client::display": {"contentType": "text/plain"}}
		if page := m.page(); page != "" {
			extras["client::notification"] = map[string]any{"click": map[string]string{"url": page}}
		}
		return encodeJSON(&gotifyMessage{m.look().symbol + " " + m.Title, m.plain(), gotifyPriorities[m.Severity()], extras})
	})
	return in.postTo(in.URL.JoinPath("message"), body, err)
}
