// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package windowsinstance

import (
	"context"

	"k8s.io/apimachinery/pkg/types"
	genericapirequest "k8s.io/apiserver/pkg/endpoints/request"

	"github.com/openshift/windows-instance-api/pkg/stream/limits"
	"github.com/openshift/windows-instance-api/pkg/stream/relief"
)

// admit counts a request about the instance of that name, whether there is one or not: what else is
// asked of it may be costly.
func admit(ctx context.Context, streams *limits.Streams, kind limits.Kind, name string, connections int) (*limits.Stream, error) {
	at := types.NamespacedName{Namespace: genericapirequest.NamespaceValue(ctx), Name: name}
	return streams.Admit(kind, at, userOrUnknown(ctx), connections)
}

// tracker makes a stream of a user with a host of a namespace one that ends when the server is short of memory,
// until untrack is called.
type tracker func(namespace, user string) (stream *relief.Stream, untrack func())

// userOrUnknown is the user of a request, for limits and events.
func userOrUnknown(ctx context.Context) string {
	if info, ok := genericapirequest.UserFrom(ctx); ok {
		return info.GetName()
	}
	return "unknown"
}
