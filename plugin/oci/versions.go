package oci

import (
	"context"
	"fmt"
	"slices"

	"github.com/daeace23/prober/internal/semantic"
	"github.com/daeace23/prober/plugin"
)

// maxTags bounds the tags of a repository.
const maxTags = 10_000

var errManyTags = fmt.Errorf("more than %d tags", maxTags)

// Versions returns the tags of ref's repository that are semantic versions, the newest first. A repository that does
// not exist is an error that matches [ErrNotFound].
func (c *Client) Versions(ctx context.Context, ref plugin.Reference) (versions []string, err error) {
	seen, pages := 0, 0
	err = c.repository(ref).Tags(ctx, "", func(page []string) error {
		if seen, pages = seen+len(page), pages+1; seen > maxTags || pages > maxTags/100 {
			return errManyTags
		}
		for _, tag := range page {
			if semantic.Valid(tag) && plugin.ValidTag(tag) {
				versions = append(versions, tag)
			}
		}
		return nil
	})
	slices.SortFunc(versions, func(a, b string) int { return semantic.Compare(b, a) })
	return versions, c.explain(ctx, ref, err)
}

// Newest returns the newest version at ref's repository before the version before, "" for any. It ignores
// pre-releases, unless before is one. It returns "" if there is none.
func (c *Client) Newest(ctx context.Context, ref plugin.Reference, before string) (string, error) {
	versions, err := c.Versions(ctx, ref)
	if err != nil {
		return "", err
	}
	for _, v := range versions {
		if (before == "" || semantic.Newer(before, v)) && (!semantic.IsPrerelease(v) || semantic.IsPrerelease(before)) {
			return v, nil
		}
	}
	return "", nil
}
