// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package configmap

import (
	"errors"
	"io"

	"github.com/openshift/windows-instance-api/pkg/controller/internal/apply"
	"github.com/openshift/windows-instance-api/pkg/controller/internal/object"
)

// passing says whether what could not be written can be when it is tried again, without anybody doing anything, see [object.Passes]. What exists
// already is not in the cache yet. An answer that ends too soon is one of the API server, as nothing else is read for a write.
func passing(err error) bool {
	_, exists := errors.AsType[*apply.ExistsError](err)
	return exists || errors.Is(err, io.ErrUnexpectedEOF) || object.Passes(err)
}
