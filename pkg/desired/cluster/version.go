// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package cluster

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
	"sync"
	"time"

	utilversion "k8s.io/apimachinery/pkg/util/version"
	"k8s.io/apimachinery/pkg/version"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/rest"
	"k8s.io/utils/clock"
)

// DefaultSettleTime is the usual time for [Settle]. An API server that is upgraded is away for a few minutes.
const DefaultSettleTime = 10 * time.Minute

// Servers is what is known of the versions of the API servers of a cluster.
type Servers struct {
	// Lowest is the lowest one. Nil: it is not known, and nothing can be said.
	Lowest *utilversion.Version
	// Settled: an older one is not to be expected.
	Settled bool
}

// ServerVersion returns a function that asks an API server for its version, for [Settings.ServerVersion]. Each
// time it connects again: behind a load balancer, another server may answer then. What is kept open
// would show the same one for hours.
func ServerVersion(config *rest.Config) func(ctx context.Context) (Servers, error) {
	return func(ctx context.Context) (Servers, error) {
		client, err := reconnecting(config)
		if err != nil {
			return Servers{}, fmt.Errorf("making a client for the version of the API server: %w", err)
		}
		text, err := client.Get().AbsPath("/version").Do(ctx).Raw()
		if err != nil {
			return Servers{}, fmt.Errorf("reading the version of the API server: %w", err)
		}
		var info version.Info
		if err := json.Unmarshal(text, &info); err != nil {
			return Servers{}, fmt.Errorf("reading the version of the API server: %w", err)
		}
		return Servers{Lowest: effective(&info), Settled: true}, nil
	}
}

// reconnecting returns a client with a connection for each request. It has the credentials that are in files now.
func reconnecting(config *rest.Config) (rest.Interface, error) {
	security, err := rest.TLSConfigFor(config)
	if err != nil {
		return nil, err
	}
	proxy := config.Proxy
	if proxy == nil {
		proxy = http.ProxyFromEnvironment
	}
	transport, err := rest.HTTPWrappersForConfig(config, &http.Transport{
		Proxy: proxy, DialContext: config.Dial, TLSClientConfig: security, TLSHandshakeTimeout: answerTime, ResponseHeaderTimeout: answerTime, DisableKeepAlives: true,
	})
	if err != nil {
		return nil, err
	}
	client, err := discovery.NewDiscoveryClientForConfigAndClient(config, &http.Client{Transport: transport})
	if err != nil {
		return nil, err
	}
	return client.RESTClient(), nil
}

// answerTime is how long an API server may take to say its version.
const answerTime = 10 * time.Second

// effective returns the version that an API server behaves like: that of its binary, or the one that it emulates,
// which may be older (--emulated-version). Other components must suit the latter. Nil: it says none.
func effective(info *version.Info) *utilversion.Version {
	binary := release(info.GitVersion)
	major, err1 := strconv.ParseUint(info.EmulationMajor, 10, 16)
	minor, err2 := strconv.ParseUint(info.EmulationMinor, 10, 16)
	if err1 != nil || err2 != nil || binary == nil {
		return binary // versions before 1.32 emulate none
	}
	if emulated := utilversion.MajorMinor(uint(major), uint(minor)); newer(binary, emulated) {
		return emulated
	}
	return binary
}

// Settle returns a function for [Settings.ServerVersion] that answers with the lowest version that ask has
// returned within a period, and is settled when it has been called for as long. So while the servers behind a load
// balancer are upgraded, all of them are taken for what the oldest one is. After a pause of more than
// the period, or five minutes if that is longer, it begins again. It is safe for concurrent use.
func Settle(ask func(ctx context.Context) (Servers, error), period time.Duration) func(ctx context.Context) (Servers, error) {
	s := &settling{ask: ask, period: period, clock: clock.RealClock{}, seen: map[string]answered{}}
	return s.lowest
}

// shortestPause is what is a pause at least: API servers are asked each minute while something depends on it.
const shortestPause = 5 * time.Minute

// settling remembers versions.
type settling struct {
	ask    func(ctx context.Context) (Servers, error)
	period time.Duration
	clock  clock.PassiveClock

	mu    sync.Mutex // guards what follows
	since time.Time  // of the first answer after a pause
	last  time.Time  // of the last one
	seen  map[string]answered
}

// answered is a version, and when it was the answer.
type answered struct {
	version *utilversion.Version
	at      time.Time
}

func (s *settling) lowest(ctx context.Context) (Servers, error) {
	answer, err := s.ask(ctx)
	if err != nil || answer.Lowest == nil {
		return answer, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.clock.Now()
	for text, a := range s.seen {
		if now.Sub(a.at) > s.period {
			delete(s.seen, text)
		}
	}
	if now.Sub(s.last) > max(s.period, shortestPause) {
		s.since = now
	}
	s.last = now
	s.seen[answer.Lowest.String()] = answered{answer.Lowest, now}
	for _, a := range s.seen {
		if a.version.LessThan(answer.Lowest) {
			answer.Lowest = a.version
		}
	}
	answer.Settled = now.Sub(s.since) >= s.period
	return answer, nil
}
