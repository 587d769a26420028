// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package cluster

import (
	"context"
	"encoding/json"
	"fmt"

	utilversion "k8s.io/apimachinery/pkg/util/version"
	"k8s.io/apimachinery/pkg/version"
	"k8s.io/client-go/rest"

	"github.com/openshift/windows-instance-api/pkg/desired/payload"
)

// ServerVersion returns a function that asks an API server for its version, for [Settings.ServerVersion].
func ServerVersion(server rest.Interface) func(ctx context.Context) (string, error) {
	return func(ctx context.Context) (string, error) {
		text, err := server.Get().AbsPath("/version").Do(ctx).Raw()
		if err != nil {
			return "", fmt.Errorf("reading the version of the API server: %w", err)
		}
		var info version.Info
		if err := json.Unmarshal(text, &info); err != nil {
			return "", fmt.Errorf("reading the version of the API server: %w", err)
		}
		return info.GitVersion, nil
	}
}

// maxSkew is by how many minor versions a kubelet may be older than the API server, by
// the version skew policy of Kubernetes (https://kubernetes.io/releases/version-skew-policy/).
// It may never be newer. Patches do not count.
const maxSkew = 3

// checkVersion warns of a kubelet that the API server is not made for. Where one of the
// versions is not known, as v0.0.0 of what is no release, nothing can be said.
func (r *reader) checkVersion(server string) {
	theirs, err := utilversion.ParseGeneric(server)
	if err != nil {
		return // it is no version
	}
	ours, err := utilversion.ParseGeneric(versionOf(r.settings.Payload, payload.RoleKubelet))
	if err != nil || ours.Major() != theirs.Major() {
		return
	}
	switch {
	case ours.Minor() > theirs.Minor():
		r.warnings = append(r.warnings, fmt.Sprintf("the kubelet %s of the payload is newer than the API server %s, which is not supported: use a payload for it, make payload KUBERNETES=%d.%d", ours, theirs, theirs.Major(), theirs.Minor()))
	case ours.Minor()+maxSkew < theirs.Minor():
		r.warnings = append(r.warnings, fmt.Sprintf("the kubelet %s of the payload is more than %d minor versions older than the API server %s, which is not supported: use a newer payload", ours, maxSkew, theirs))
	}
}
