// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package main

import (
	"github.com/openshift/windows-instance-api/pkg/host"
	"github.com/openshift/windows-instance-api/pkg/wmco"
)

// publicKeyHashCase is a line of an authorized_keys file.
type publicKeyHashCase struct {
	AuthorizedKey string `json:"authorizedKey"`
}

func publicKeyHashOf(c publicKeyHashCase) result {
	key, err := host.ParseKey(c.AuthorizedKey)
	if err != nil {
		return result{Error: err.Error()}
	}
	return result{Output: map[string]any{"annotation": wmco.PublicKeyHashAnnotation, "hash": wmco.PublicKeyHash(key.String())}}
}
