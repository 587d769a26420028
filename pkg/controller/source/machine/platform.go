// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package machine

import (
	"context"
	"fmt"
	"sync"

	configv1 "github.com/openshift/api/config/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// infrastructureName is the name of the one Infrastructure of a cluster.
const infrastructureName = "cluster"

// platformReader tells the platform that the cluster runs on. A cluster never moves
// to another one, so it is read once. It is safe for concurrent use.
type platformReader struct {
	live client.Reader // not a cache: there is one object, and it is read once

	mu    sync.Mutex // guards known
	known configv1.PlatformType
}

// Platform returns the platform, or None in a cluster without an Infrastructure. One that says no platform, as when it was created again
// without its status, is an error: a Machine of vSphere would be taken for one that can be replaced.
func (p *platformReader) Platform(ctx context.Context) (configv1.PlatformType, error) {
	p.mu.Lock()
	known := p.known
	p.mu.Unlock()
	if known != "" {
		return known, nil
	}
	var infrastructure configv1.Infrastructure
	err := p.live.Get(ctx, client.ObjectKey{Name: infrastructureName}, &infrastructure)
	switch {
	case apierrors.IsNotFound(err), meta.IsNoMatchError(err):
		return configv1.NonePlatformType, nil
	case err != nil:
		return "", fmt.Errorf("read Infrastructure %s: %w", infrastructureName, err)
	case infrastructure.Status.PlatformStatus == nil || infrastructure.Status.PlatformStatus.Type == "":
		return "", fmt.Errorf("read Infrastructure %s: it has no status.platformStatus.type, as when it was created again without its status", infrastructureName)
	}
	known = infrastructure.Status.PlatformStatus.Type
	p.mu.Lock()
	p.known = known
	p.mu.Unlock()
	return known, nil
}
