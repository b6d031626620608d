//go:build linux

package bed

import (
	"bytes"
	"encoding/json"
	"os"
	"strings"
	"testing"
	"time"
)

// auditLog is the file to which the API server logs each write before it answers the request.
const auditLog = Dir + "/audit.log"

const auditPolicy = `apiVersion: audit.k8s.io/v1
kind: Policy
omitStages: [RequestReceived]
rules:
- {level: None, verbs: [get, list, watch]}
- {level: Request, verbs: [patch], resources: [{group: "", resources: [pods/status]}]}
- {level: Metadata}
`

// Write is a request to change something, whether or not it succeeded.
type Write struct {
	User     string // such as system:serviceaccount:NAMESPACE:NAME
	Verb     string
	Resource string // with the subresource, such as pods/status
	Name     string
	Code     int
	Received time.Time
	Body     json.RawMessage // only for patches of pods/status
}

// Writes returns the writes in a namespace that the API server has logged, in the order in which it answered
// them. If user is not "", only its writes are returned.
func (c *Cluster) Writes(t testing.TB, user, namespace string) (all []Write) {
	t.Helper()
	data, err := os.ReadFile(auditLog)
	if err != nil {
		t.Fatal(err)
	}
	for line := range bytes.Lines(data) {
		var entry struct {
			Verb           string
			User           struct{ Username string }
			ObjectRef      struct{ Resource, Subresource, Namespace, Name string }
			ResponseStatus struct{ Code int }
			RequestObject  json.RawMessage
			Received       time.Time `json:"requestReceivedTimestamp"`
		}
		if !bytes.HasSuffix(line, []byte("\n")) { // it is being written
			break
		}
		if err := json.Unmarshal(line, &entry); err != nil {
			t.Fatalf("%v in %s", err, line)
		}
		if user != "" && entry.User.Username != user || entry.ObjectRef.Namespace != namespace {
			continue
		}
		all = append(all, Write{
			User: entry.User.Username, Verb: entry.Verb, Name: entry.ObjectRef.Name, Code: entry.ResponseStatus.Code, Received: entry.Received, Body: entry.RequestObject,
			Resource: strings.TrimSuffix(entry.ObjectRef.Resource+"/"+entry.ObjectRef.Subresource, "/"),
		})
	}
	return all
}
