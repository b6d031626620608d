package sidecar_test

import (
	"context"
	"errors"
	"fmt"
	"net/http/httptest"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/daeace23/prober/probe"
	"github.com/daeace23/prober/probe/probetest"
)

func TestRequestsShareAttempts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := probetest.NewHandler(probetest.Answer(probe.Failure, "first").After(300*time.Millisecond), probetest.Answer(probe.Success, "second"))
		s := newRig(t, fmt.Sprintf(web, ""), h).start(t)
		var asking sync.WaitGroup
		for i := range 50 {
			asking.Go(func() {
				time.Sleep(time.Duration(i) * 5 * time.Millisecond)
				if w := get(s, "/web/readiness"); w.Code != 503 || w.Body.String() != "first\n" {
					t.Errorf("request %d: %d %q", i, w.Code, w.Body)
				}
			})
		}
		asking.Wait()
		if n := len(h.Calls()); n != 1 {
			t.Fatalf("50 requests at the same time made %d attempts", n)
		}
		time.Sleep(99 * time.Millisecond)
		if get(s, "/web/readiness"); len(h.Calls()) != 1 {
			t.Error("a request 99 ms after the attempt made another one")
		}
		time.Sleep(time.Millisecond)
		if w := get(s, "/web/readiness"); w.Code != 200 || w.Body.String() != "second\n" || len(h.Calls()) != 2 {
			t.Errorf("request after 100 ms: %d %q, %d attempts", w.Code, w.Body, len(h.Calls()))
		}
		if got := h.Calls()[1].Request.LastResult; got != probe.Failure {
			t.Errorf("last result of the second attempt: %s", got)
		}
	})
}

func TestErrorsAreRetriedAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		boom := probetest.Error(errors.New("boom"))
		h := probetest.NewHandler(boom, boom, probetest.Answer(probe.Success, "third"), boom, boom, boom)
		s := newRig(t, fmt.Sprintf(web, ""), h).start(t)
		if w := get(s, "/web/readiness"); w.Body.String() != "third\n" || len(h.Calls()) != 3 {
			t.Errorf("%q after %d attempts", w.Body, len(h.Calls()))
		}
		time.Sleep(time.Second)
		if w := get(s, "/web/readiness"); w.Body.String() != "boom\n" || len(h.Calls()) != 6 {
			t.Errorf("%q after %d attempts", w.Body, len(h.Calls()))
		}
	})
}

func TestTimeoutOfTheProbeIsAFailure(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newRig(t, fmt.Sprintf(web, ", timeout: 300ms"), probetest.NewHandler(probetest.Hang())).start(t)
		start := time.Now()
		if w := get(s, "/web/readiness"); w.Code != 503 || time.Since(start) != 300*time.Millisecond {
			t.Errorf("%d %q after %s", w.Code, w.Body, time.Since(start))
		}
	})
}

func TestCallerWhoLeavesDoesNotEndTheAttempt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := probetest.NewHandler(probetest.Answer(probe.Success, "late").After(500 * time.Millisecond))
		s := newRig(t, fmt.Sprintf(web, ""), h).start(t)
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
		defer cancel()
		if w := do(s, httptest.NewRequest("GET", "http://10.0.0.1/web/readiness", nil).WithContext(ctx)); w.Body.Len() > 0 {
			t.Errorf("answer to a caller who has left: %q", w.Body)
		}
		if w := get(s, "/web/readiness"); w.Body.String() != "late\n" || len(h.Calls()) != 1 {
			t.Errorf("next caller: %q, %d attempts", w.Body, len(h.Calls()))
		}
	})
}

func TestCloseEndsAttempts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newRig(t, fmt.Sprintf(web, ", timeout: 1h, errorPolicy: failure"), probetest.NewHandler(probetest.Hang())).start(t)
		var asking sync.WaitGroup
		asking.Go(func() {
			if w := get(s, "/web/readiness"); w.Code != 200 || w.Header().Get("Prober-Result") != "unknown" {
				t.Errorf("%d %v %q", w.Code, w.Header(), w.Body)
			}
		})
		synctest.Wait()
		s.Close()
		asking.Wait()
		if w := get(s, "/web/readiness"); w.Code != 404 {
			t.Errorf("after Close: %d", w.Code)
		}
	})
}
