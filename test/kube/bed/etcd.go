//go:build linux

package bed

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/scheme"
)

// Tests can read and change the objects in etcd while there is no API server. Keys look like
// /registry/pods/NAMESPACE/NAME.

// pair is a key with its value. Both are base64 in JSON.
type pair struct {
	Key   []byte `json:"key"`
	Value []byte `json:"value,omitempty"`
}

// askEtcd sends a request to etcd's JSON gateway. The caller must close the answer.
func askEtcd(ctx context.Context, path string, request any) (io.ReadCloser, error) {
	body, err := json.Marshal(request)
	if err != nil {
		return nil, err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, etcd+"/v3/"+path, bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return nil, err
	}
	if resp.StatusCode != http.StatusOK {
		text, _ := io.ReadAll(resp.Body)
		resp.Body.Close()
		return nil, fmt.Errorf("etcd: %s: %s: %s", path, resp.Status, text)
	}
	return resp.Body, nil
}

// StorePod writes a pod to etcd, unchecked. An API server that starts later serves it.
func (c *Cluster) StorePod(t testing.TB, pod *corev1.Pod) {
	t.Helper()
	pod = pod.DeepCopy()
	pod.APIVersion, pod.Kind, pod.ResourceVersion = "v1", "Pod", ""
	value, err := json.Marshal(pod)
	if err != nil {
		t.Fatal(err)
	}
	answer, err := askEtcd(t.Context(), "kv/put", pair{podKey(pod.Namespace, pod.Name), value})
	if err != nil {
		t.Fatal(err)
	}
	answer.Close()
}

// DropPod removes a pod from etcd at once, even if its containers run.
func (c *Cluster) DropPod(t testing.TB, namespace, name string) {
	t.Helper()
	answer, err := askEtcd(t.Context(), "kv/deleterange", pair{Key: podKey(namespace, name)})
	if err != nil {
		t.Fatal(err)
	}
	answer.Close()
}

func podKey(namespace, name string) []byte { return []byte("/registry/pods/" + namespace + "/" + name) }

// WatchStored calls changed with each new state of the objects below a key such as
// /registry/pods/NAMESPACE/, one after the other, until the end of the test. The object is nil if it was
// deleted. WatchStored misses no state, even while there is no API server.
func (c *Cluster) WatchStored(t testing.TB, prefix string, changed func(key string, object runtime.Object)) {
	t.Helper()
	type stored struct {
		Type string
		KV   pair
	}
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	end := []byte(prefix)
	end[len(end)-1]++
	answer, err := askEtcd(ctx, "watch", map[string]any{"create_request": map[string]any{"key": []byte(prefix), "range_end": end}})
	if err != nil {
		cancel()
		t.Fatal(err)
	}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for answers := json.NewDecoder(answer); ; {
			var next struct{ Result struct{ Events []stored } }
			if err := answers.Decode(&next); err != nil {
				if ctx.Err() == nil {
					t.Error("watch of etcd: ", err)
				}
				return
			}
			for _, e := range next.Result.Events {
				if e.Type == "DELETE" {
					changed(string(e.KV.Key), nil)
					continue
				}
				object, _, err := scheme.Codecs.UniversalDeserializer().Decode(e.KV.Value, nil, nil)
				if err != nil {
					t.Errorf("%s in etcd: %v", e.KV.Key, err)
					continue
				}
				changed(string(e.KV.Key), object)
			}
		}
	}()
	t.Cleanup(func() {
		cancel()
		answer.Close()
		<-ended
	})
}
