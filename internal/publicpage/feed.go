package publicpage

import (
	"bytes"
	"crypto/sha256"
	"encoding/xml"
	"fmt"
	"strings"
	"time"
)

// feedFile and indexFile are names of files.
const (
	feedFile  = "feed.xml"
	indexFile = "index.html"
	iconFile  = "icon.svg"
	allBadge  = "badge.svg"
)

type atomFeed struct {
	XMLName xml.Name    `xml:"http://www.w3.org/2005/Atom feed"`
	ID      string      `xml:"id"`
	Title   string      `xml:"title"`
	Updated string      `xml:"updated"`
	Author  string      `xml:"author>name"`
	Links   []atomLink  `xml:"link"`
	Entries []atomEntry `xml:"entry"`
}

type atomLink struct {
	Rel  string `xml:"rel,attr,omitempty"`
	Href string `xml:"href,attr"`
}

type atomEntry struct {
	ID        string   `xml:"id"`
	Title     string   `xml:"title"`
	Published string   `xml:"published"`
	Updated   string   `xml:"updated"`
	Link      atomLink `xml:"link"`
	Content   string   `xml:"content"`
}

// feed returns the newest incidents as a feed of Atom.
func (r *renderer) feed() ([]byte, error) {
	p := r.page
	f := atomFeed{ID: urn(p.URL, p.Title), Title: r.title, Author: r.title, Links: []atomLink{{Href: p.URL + indexFile}}}
	if p.URL != "" {
		f.Links = append(f.Links, atomLink{Rel: "self", Href: p.URL + feedFile})
	}
	updated := p.Since
	for _, n := range r.incidents[:min(len(r.incidents), maxFeed)] {
		changed := n.start()
		for _, at := range []time.Time{n.end(), lastNote(n)} {
			if at.After(changed) {
				changed = at
			}
		}
		if changed.After(updated) {
			updated = changed
		}
		v := n.view(p.Until)
		f.Entries = append(f.Entries, atomEntry{
			ID: urn(p.URL, p.Title, n.ID, rfc3339(n.start())), Title: v.Title, Published: rfc3339(n.start()), Updated: rfc3339(changed),
			Link: atomLink{Href: p.URL + indexFile + "#incidents"}, Content: strings.Join(v.lines(), "\n"),
		})
	}
	f.Updated = rfc3339(updated)
	b := bytes.NewBufferString(xml.Header)
	e := xml.NewEncoder(b)
	e.Indent("", " ")
	err := e.Encode(&f)
	b.WriteByte('\n')
	return b.Bytes(), err
}

// lastNote returns the time of the newest note; zero if there is none.
func lastNote(n *Incident) time.Time {
	if len(n.Notes) == 0 {
		return time.Time{}
	}
	return n.Notes[len(n.Notes)-1].Time
}

// urn returns the same identifier for the same parts.
func urn(parts ...string) string {
	sum := sha256.Sum256([]byte(strings.Join(parts, "\x00")))
	sum[6], sum[8] = sum[6]&0x0f|0x80, sum[8]&0x3f|0x80 // a UUID of version 8
	return fmt.Sprintf("urn:uuid:%x-%x-%x-%x-%x", sum[:4], sum[4:6], sum[6:8], sum[8:10], sum[10:16])
}

func rfc3339(t time.Time) string { return t.UTC().Format(time.RFC3339) }
