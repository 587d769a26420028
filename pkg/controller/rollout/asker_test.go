// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package rollout

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/utils/clock"

	"github.com/openshift/windows-instance-api/pkg/apis/windows/v1alpha1"
)

// TestAskSlowHosts: a host has the time for its answer that its plan may take, and no host is waited for without an end.
func TestAskSlowHosts(t *testing.T) {
	for _, tt := range []struct {
		name  string
		takes time.Duration
		want  v1alpha1.ChangeImpact // empty: it does not say
	}{
		{"at once", 0, v1alpha1.ImpactDrain},
		{"a slow disk", 3 * time.Minute, v1alpha1.ImpactDrain},
		{"it hangs", time.Hour, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				a := newAsker(func(ctx context.Context, i *v1alpha1.WindowsInstance) (v1alpha1.ChangeImpact, string, error) {
					select {
					case <-time.After(tt.takes):
						return v1alpha1.ImpactDrain, i.Status.DesiredRevision, nil
					case <-ctx.Done():
						return "", "", ctx.Err()
					}
				}, clock.RealClock{})
				answered := make(chan struct{})
				a.notify = func(context.Context) { close(answered) }
				ctx, cancel := context.WithCancel(t.Context())
				ended := make(chan error, 1)
				go func() { ended <- a.Start(ctx) }()
				host := needsUpdate("a")
				a.ask(host)
				<-answered
				impact, unknown, _ := a.answer(host, time.Now())
				if impact != tt.want || (unknown == "") != (tt.want != "") {
					t.Errorf("it costs %q, not known because of %q", impact, unknown)
				}
				cancel()
				if err := <-ended; err != nil {
					t.Error(err)
				}
			})
		})
	}
}
