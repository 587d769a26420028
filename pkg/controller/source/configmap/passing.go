// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package configmap

import (
	"errors"
	"io"
	"net"
	"net/http"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	utilnet "k8s.io/apimachinery/pkg/util/net"

	"github.com/openshift/windows-instance-api/pkg/controller/internal/apply"
)

// passing says whether what could not be written can be when it is tried again, without anybody doing
// anything: the cache is behind, or the API server has trouble or does not answer. What the server, a
// quota or a webhook refuses stays refused.
func passing(err error) bool {
	if _, exists := errors.AsType[*apply.ExistsError](err); exists || apierrors.IsConflict(err) {
		return true
	}
	if status, ok := errors.AsType[*apierrors.StatusError](err); ok {
		return status.ErrStatus.Code >= http.StatusInternalServerError || apierrors.IsTooManyRequests(err) || apierrors.IsUnexpectedServerError(err)
	}
	_, network := errors.AsType[net.Error](err)
	return network || utilnet.IsHTTP2ConnectionLost(err) || errors.Is(err, io.ErrUnexpectedEOF)
}
