package stream

import (
	"encoding/json"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/daeace23/prober/agent/api"
	"github.com/daeace23/prober/agent/secrets"
	"github.com/daeace23/prober/core/manager"
	"github.com/daeace23/prober/pods"
)

// podItem and probeItem are the items of a stream. A removed object is sent once more, with Removed set.
type podItem struct {
	*v1.Pod
	Removed bool `json:"removed,omitempty"`
}

type probeItem struct {
	*api.ProbeStatus
	Removed bool `json:"removed,omitempty"`
}

func probeID(key manager.Key) id {
	return id{object: probeObject, uid: key.PodUID, container: key.Container, kind: key.Kind}
}

func eventID(e *v1.Event) id { return id{object: eventObject, uid: types.UID(e.Name)} }

func encodePod(view View, c *pods.Change) (version, error) {
	v := version{id: id{object: podObject, uid: c.Pod.UID}, removed: c.Removed}
	if view == Summary {
		return encode(v, summaryOfPod(c))
	}
	return encode(v, podItem{secrets.Mask(c.Pod), c.Removed})
}

// encodeProbe omits the history, as the reader has seen the ticks.
func encodeProbe(view View, key manager.Key, s *api.ProbeStatus) (version, error) {
	v := version{id: probeID(key), label: label{s.Namespace, s.Pod, s.Handler}}
	if view == Summary {
		return encode(v, summaryOf(s))
	}
	s.History = nil
	return encode(v, probeItem{ProbeStatus: s})
}

func encodeRemoved(view View, key manager.Key, l label) (version, error) {
	gone := &api.ProbeStatus{
		Namespace: l.namespace, Pod: l.pod, UID: string(key.PodUID), Container: key.Container, Kind: key.Kind.String(), Handler: l.handler, Result: "unknown",
	}
	v := version{id: probeID(key), removed: true}
	if view == Summary {
		s := summaryOf(gone)
		s.Removed = true
		return encode(v, s)
	}
	return encode(v, probeItem{gone, true})
}

func encodeEvent(e *v1.Event) (version, error) { return encode(version{id: eventID(e)}, e) }

// encode sets the frame of v to a server-sent event with item as its data.
func encode(v version, item any) (version, error) {
	text, err := json.Marshal(item)
	if err != nil {
		return version{}, err
	}
	name := v.id.object.String()
	v.frame = make([]byte, 0, len("event: \ndata: \n\n")+len(name)+len(text))
	v.frame = append(v.frame, "event: "...)
	v.frame = append(v.frame, name...)
	v.frame = append(v.frame, "\ndata: "...)
	v.frame = append(v.frame, text...)
	v.frame = append(v.frame, "\n\n"...)
	return v, nil
}
