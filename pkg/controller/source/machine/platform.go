// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package machine

import (
	"context"
	"sync"

	configv1 "github.com/openshift/api/config/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/openshift/windows-instance-api/pkg/controller/internal/object"
)

// platformReader tells the platform that the cluster runs on. A cluster never moves
// to another one, so it is read once. It is safe for concurrent use.
type platformReader struct {
	live client.Reader // not a cache: there is one object, and it is read once

	mu    sync.Mutex // guards known
	known configv1.PlatformType
}

// Platform returns the platform, or None in a cluster that is not OpenShift. That a cluster of OpenShift does not say it, as when its
// Infrastructure was deleted, is an error: hosts would get the user and the name of another platform, and a Machine of vSphere would be
// taken for one that can be replaced.
func (p *platformReader) Platform(ctx context.Context) (configv1.PlatformType, error) {
	p.mu.Lock()
	known := p.known
	p.mu.Unlock()
	if known != "" {
		return known, nil
	}
	known, err := object.Platform(ctx, p.live)
	switch {
	case err != nil:
		return "", err
	case known == "":
		return configv1.NonePlatformType, nil
	}
	p.mu.Lock()
	p.known = known
	p.mu.Unlock()
	return known, nil
}
