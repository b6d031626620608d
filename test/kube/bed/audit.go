//go:build linux

package bed

import (
	"bufio"
	"encoding/json"
	"os"
	"strings"
	"testing"
	"time"
)

// auditLog has a line for each write of a service account.
const auditLog = Dir + "/audit.log"

// auditPolicy leaves out the programs of the cluster, which are other users.
const auditPolicy = `apiVersion: audit.k8s.io/v1
kind: Policy
omitStages: [RequestReceived]
rules:
- level: Request
  userGroups: [system:serviceaccounts]
  verbs: [create, update, patch, delete]
- level: None
`

// Write is a request of a service account that writes, as the API server has recorded it.
type Write struct {
	User      string // such as system:serviceaccount:test-1:prober
	Verb      string
	Resource  string // with the subresource: pods/status
	Namespace string
	Name      string
	Code      int // of the answer
	At        time.Time
	Body      string
}

// Writes returns the requests to write objects in a namespace that service accounts have made since a
// time.
func (c *Cluster) Writes(t testing.TB, namespace string, since time.Time) (all []Write) {
	t.Helper()
	file, err := os.Open(auditLog)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	lines := bufio.NewScanner(file)
	lines.Buffer(nil, 16<<20)
	for lines.Scan() {
		var e struct {
			Verb      string
			User      struct{ Username string }
			ObjectRef struct{ Resource, Subresource, Namespace, Name string }

			ResponseStatus struct{ Code int }
			RequestObject  json.RawMessage

			RequestReceivedTimestamp time.Time
		}
		if err := json.Unmarshal(lines.Bytes(), &e); err != nil {
			t.Fatalf("%s: %v", auditLog, err)
		}
		if of := e.ObjectRef; of.Namespace == namespace && e.RequestReceivedTimestamp.After(since) {
			all = append(all, Write{
				User: e.User.Username, Verb: e.Verb, Resource: strings.TrimSuffix(of.Resource+"/"+of.Subresource, "/"), Namespace: of.Namespace, Name: of.Name,
				Code: e.ResponseStatus.Code, At: e.RequestReceivedTimestamp, Body: string(e.RequestObject),
			})
		}
	}
	if err := lines.Err(); err != nil {
		t.Fatal(err)
	}
	return all
}
