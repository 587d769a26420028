// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

// Package passing says which errors of an API server end without anybody doing anything. It imports nothing of this project.
package passing

import (
	"errors"
	"net"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	utilnet "k8s.io/apimachinery/pkg/util/net"
)

// Error says whether an error is trouble with the API server, or a cache that is behind, which ends without anybody doing anything. What the server,
// a quota or a webhook refuses, and what the server, or what is read from it, says clearly, stays as it is.
func Error(err error) bool {
	var status apierrors.APIStatus
	if errors.As(err, &status) {
		return apierrors.IsServerTimeout(err) || apierrors.IsTimeout(err) || apierrors.IsTooManyRequests(err) ||
			apierrors.IsInternalError(err) || apierrors.IsServiceUnavailable(err) || apierrors.IsConflict(err) ||
			apierrors.IsUnexpectedServerError(err)
	}
	// Clients give a [net/url.Error] for a request without an answer, whatever was the matter:
	// a route, DNS, a connection that was lost. That is a net.Error, as all of the network are.
	_, network := errors.AsType[net.Error](err)
	return network || utilnet.IsHTTP2ConnectionLost(err) || utilnet.IsProbableEOF(err)
}
