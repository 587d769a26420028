// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package windowsinstance

import (
	"context"
	"net/http"
	"sync"
	"time"
)

// cutKey is the key of a context whose value breaks off the answer to its request.
type cutKey struct{}

// WithCut lets the subresources break off what they are answering: a log that is not complete must not
// look so, and a client that takes nothing must not hold it for ever. It has to be the innermost
// filter, because the generic code hands them no response.
func WithCut(handler http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var mu sync.Mutex // guards the end: a response must not be used after it
		over := false
		defer func() {
			mu.Lock()
			defer mu.Unlock()
			over = true
		}()
		cut := func() {
			mu.Lock()
			defer mu.Unlock()
			if !over {
				// It also ends one that was taken over by a WebSocket. An error says that it is closed.
				_ = http.NewResponseController(w).SetWriteDeadline(time.Unix(1, 0))
			}
		}
		handler.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), cutKey{}, cut)))
	})
}

// cutOf returns what breaks off the answer to the request of ctx.
func cutOf(ctx context.Context) func() {
	if cut, ok := ctx.Value(cutKey{}).(func()); ok {
		return cut
	}
	return func() {}
}
