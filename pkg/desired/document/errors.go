// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package document

import "errors"

// ErrInputs is in every error that means that somebody has to correct something in the cluster before any host can be
// configured, and that trying again does not help before.
var ErrInputs = errors.New("the cluster lacks what hosts are configured with")

// ErrOtherOperator is in those of them that mean that the Windows Machine Config Operator runs, which configures the
// same hosts.
var ErrOtherOperator = errors.New("the Windows Machine Config Operator runs")
