// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package app

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"sync/atomic"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/healthz"
)

const (
	healthReadTimeout     = 5 * time.Second
	healthShutdownTimeout = 5 * time.Second
	// syncCheckTimeout is how long a probe waits for the caches. They answer at once
	// when they are filled.
	syncCheckTimeout = time.Second
)

// healthServer answers the probes of the kubelet. It is there before the manager
// is, which has to wait for the API.
type healthServer struct {
	listener net.Listener // nil: none is wanted
	// synced says whether the caches are filled. Nil: there are none yet.
	synced atomic.Pointer[func(context.Context) bool]
	// awaited is what is waited for before there are caches.
	awaited atomic.Pointer[string]
}

// newHealthServer listens already, so that an address in use is an error at the start.
func newHealthServer(ctx context.Context, address string) (*healthServer, error) {
	if address == "0" {
		return &healthServer{}, nil
	}
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", address)
	if err != nil {
		return nil, fmt.Errorf("--health-probe-bind-address: %w", err)
	}
	return &healthServer{listener: listener}, nil
}

// setSynced tells how to find out whether the caches are filled.
func (h *healthServer) setSynced(synced func(context.Context) bool) { h.synced.Store(&synced) }

// setAwaited tells what is waited for before there are caches.
func (h *healthServer) setAwaited(what string) { h.awaited.Store(&what) }

// run serves until ctx is done.
func (h *healthServer) run(ctx context.Context) error {
	if h.listener == nil {
		return nil
	}
	alive := &healthz.Handler{} // which has a ping
	ready := &healthz.Handler{Checks: map[string]healthz.Checker{"ping": healthz.Ping, "caches": h.checkCaches}}
	mux := http.NewServeMux()
	for path, handler := range map[string]http.Handler{"/healthz": alive, "/livez": alive, "/readyz": ready} {
		mux.Handle(path, http.StripPrefix(path, handler))
		mux.Handle(path+"/", http.StripPrefix(path, handler))
	}
	server := &http.Server{Handler: mux, ReadTimeout: healthReadTimeout, ReadHeaderTimeout: healthReadTimeout}
	failed := make(chan error, 1)
	go func() { failed <- server.Serve(h.listener) }()
	select {
	case err := <-failed:
		return fmt.Errorf("serving health probes: %w", err)
	case <-ctx.Done():
	}
	// ctx is done; the requests that are being answered get a little longer.
	last, cancel := context.WithTimeout(context.WithoutCancel(ctx), healthShutdownTimeout)
	defer cancel()
	if err := server.Shutdown(last); err != nil {
		return fmt.Errorf("ending health probes: %w", err)
	}
	if err := <-failed; !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("serving health probes: %w", err)
	}
	return nil
}

func (h *healthServer) checkCaches(req *http.Request) error {
	synced := h.synced.Load()
	if synced == nil {
		what := "the cluster"
		if awaited := h.awaited.Load(); awaited != nil {
			what = *awaited
		}
		return errors.New("waiting for " + what)
	}
	ctx, cancel := context.WithTimeout(req.Context(), syncCheckTimeout)
	defer cancel()
	if !(*synced)(ctx) {
		return errors.New("the caches are not filled yet")
	}
	return nil
}
