package api

// ListMeta is the metadata of a page of a list, as in the Kubernetes API. It is empty on the last page, and
// without a limit.
type ListMeta struct {
	// Continue is the parameter "continue" for the next page. It is valid as long as the agent runs the same
	// version.
	Continue string `json:"continue,omitempty"`
	// RemainingItemCount is the number of items on later pages.
	RemainingItemCount *int64 `json:"remainingItemCount,omitempty"`
}
