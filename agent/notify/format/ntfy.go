package format

import "path"

// The limits of ntfy.
const (
	ntfyProbes = 20
	ntfyBytes  = 4096 // of a text; a longer one becomes a file
	ntfyTitle  = 250  // characters, within what phones show
)

type ntfyMessage struct {
	Topic    string   `json:"topic"`
	Title    string   `json:"title"`
	Message  string   `json:"message"`
	Priority int      `json:"priority"`
	Tags     []string `json:"tags"`
	Click    string   `json:"click,omitempty"`
}

// ntfyLooks has the priority, from 1 to 5, and the tag by state. The tag is the name of an emoji, which ntfy
// shows before the title.
var ntfyLooks = map[string]struct {
	priority int
	tag      string
}{"failure": {5, "red_circle"}, "unknown": {4, "white_circle"}, "warning": {3, "yellow_circle"}, "success": {3, "green_circle"}}

// ntfy returns a message for the topic at the end of the URL. As JSON it goes to the root of the server.
func ntfy(in *Input) (*Request, error) {
	root, topic := *in.URL, path.Base(in.URL.Path)
	root.Path, root.RawPath = path.Dir(in.URL.Path), ""
	like := ntfyLooks[in.Severity()]
	if in.Status == Test {
		like.tag = "large_blue_circle"
	}
	body, err := in.renderWithin(ntfyProbes, ntfyBytes, func(m *Message) ([]byte, error) {
		return encodeJSON(&ntfyMessage{topic, cut(m.Title, ntfyTitle), m.plain(), like.priority, []string{like.tag, "prober"}, m.page()})
	})
	return in.postTo(&root, body, err)
}
