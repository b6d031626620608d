package format

// The limits of Opsgenie, in characters.
const (
	opsgenieProbes      = 20
	opsgenieMessage     = 130
	opsgenieDescription = 15000
	opsgenieSource      = 100
	opsgenieEntity      = 512
	opsgenieNote        = 25000
	opsgenieDetail      = 1000 // of 8000 for all
)

type opsgenieAlert struct {
	Message     string            `json:"message"`
	Alias       string            `json:"alias"`
	Description string            `json:"description"`
	Tags        []string          `json:"tags"`
	Details     map[string]string `json:"details"`
	Entity      string            `json:"entity,omitempty"`
	Source      string            `json:"source"`
	Priority    string            `json:"priority"`
}

type opsgenieClose struct {
	Source string `json:"source"`
	Note   string `json:"note"`
}

// opsgeniePriorities has the priority by state.
var opsgeniePriorities = map[string]string{"failure": "P1", "unknown": "P2", "warning": "P3", "success": "P5"}

// opsgenie returns a request that opens the alert of a group, or closes it. An alert that is open is not opened
// again: Opsgenie counts how often it was sent.
func opsgenie(in *Input) (*Request, error) {
	r, err := in.opsgenieRequest()
	if r != nil {
		r.Header = map[string]string{"Authorization": "GenieKey " + in.Secret}
	}
	return r, err
}

func (in *Input) opsgenieRequest() (*Request, error) {
	source := cut("prober on "+in.Host, opsgenieSource)
	if in.Status == Resolved {
		to := in.URL.JoinPath("v2/alerts", in.ID, "close")
		query := to.Query()
		query.Set("identifierType", "alias")
		to.RawQuery = query.Encode()
		body, err := encodeJSON(&opsgenieClose{source, cut(in.Title, opsgenieNote)})
		return in.postTo(to, body, err)
	}
	description, err := in.renderWithin(opsgenieProbes, opsgenieDescription, func(m *Message) ([]byte, error) {
		return []byte(m.Title + "\n\n" + m.plain()), nil
	})
	if err != nil {
		return nil, err
	}
	alert := &opsgenieAlert{
		Message: cut(in.Title, opsgenieMessage), Alias: in.ID, Description: string(description), Tags: []string{"prober", in.Severity()}, Details: map[string]string{"host": in.Host},
		Entity: cut(in.groupName(), opsgenieEntity), Source: source, Priority: opsgeniePriorities[in.Severity()],
	}
	for name, value := range in.Group {
		alert.Details[name] = cut(value, opsgenieDetail)
	}
	if page := in.page(); page != "" && units(page) <= opsgenieDetail {
		alert.Details["page"] = page
	}
	body, err := encodeJSON(alert)
	return in.postTo(in.URL.JoinPath("v2/alerts"), body, err)
}
