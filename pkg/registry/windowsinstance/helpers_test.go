// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package windowsinstance

import (
	"errors"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

// testHostKey is a public key that belongs to nobody.
const testHostKey = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIJXl0Yl1n9ZeKS5YSsDF1PAI1oRCiK9qXh1n3yXkQ0k6"

var sortStrings cmp.Option = cmpopts.SortSlices(func(a, b string) bool { return a < b })

func asStatus(err error, status *apierrors.APIStatus) bool { return errors.As(err, status) }
