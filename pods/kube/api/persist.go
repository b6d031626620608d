package api

import (
	"context"
	"errors"
	"net/http"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/cache"

	"github.com/daeace23/prober/internal/pace"
)

// Times between two requests to an API server that cannot be reached. maxRetry is the kubelet's longest
// interval between two tries to renew the lease of its node.
const (
	minRetry = 500 * time.Millisecond
	maxRetry = 7 * time.Second
)

// Persistent repeats the requests of from that the API server does not answer, until their context ends. A reflector
// would back off for up to a minute, partly ignoring its context, so it must not see these errors. note gets the
// error of each request; nil if it succeeded.
func Persistent(from cache.ListerWatcher, note func(ctx context.Context, err error)) cache.ListerWatcher {
	requests := cache.ToListerWatcherWithContext(from)
	return &cache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
			return persist(ctx, note, func() (runtime.Object, error) { return requests.ListWithContext(ctx, o) })
		},
		WatchFuncWithContext: func(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
			return persist(ctx, note, func() (watch.Interface, error) { return requests.WatchWithContext(ctx, o) })
		},
	}
}

func persist[T any](ctx context.Context, note func(context.Context, error), request func() (T, error)) (T, error) {
	for wait := minRetry; ; wait = min(2*wait, maxRetry) {
		answer, err := request()
		note(ctx, err)
		if err == nil || ctx.Err() != nil || !Unanswered(err) {
			return answer, err
		}
		if pace.Wait(ctx, nil, pace.Jitter(wait/2, wait)); ctx.Err() != nil {
			return answer, ctx.Err()
		}
	}
}

// Unanswered reports whether the same request may succeed later: err means that the API server cannot be
// reached, is busy or starting, or that the token has expired.
func Unanswered(err error) bool {
	status, ok := errors.AsType[*apierrors.StatusError](err)
	if !ok {
		return true
	}
	code := status.ErrStatus.Code
	return code >= http.StatusInternalServerError || code == http.StatusTooManyRequests || code == http.StatusUnauthorized
}
