// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package main

import (
	"golang.org/x/crypto/ssh"

	"github.com/openshift/windows-instance-api/pkg/wmco"
)

type annotationCase struct {
	Key             string `json:"key"`
	AnnotationValue string `json:"annotationValue"`
}

func usernameAnnotation(c annotationCase) result {
	return outcome(wmco.DecryptUsername(c.AnnotationValue, []byte(c.Key)))
}

type hashCase struct {
	AuthorizedKey string `json:"authorizedKey"`
}

func publicKeyHash(c hashCase) result {
	key, _, _, _, err := ssh.ParseAuthorizedKey([]byte(c.AuthorizedKey))
	if err != nil {
		return result{Error: err.Error()}
	}
	return result{Output: wmco.PublicKeyHash(key)}
}
