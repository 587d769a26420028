// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package document

import (
	"time"

	"k8s.io/apimachinery/pkg/api/resource"
)

// LogRotation configures the rotation of the logs of services. The zero value rotates nothing.
type LogRotation struct {
	// maxBytes is the size at which a log is rotated. Zero: none is.
	maxBytes int64
	// maxAge is the age at which a rotated log is removed, in whole seconds. Zero: none is.
	maxAge time.Duration
}

// Defaults of the rotation of logs.
const (
	// DefaultLogSize is the size at which a log is rotated, in bytes.
	DefaultLogSize = 100 << 20
	// DefaultLogAge is the age at which a rotated log is removed.
	DefaultLogAge = 7 * 24 * time.Hour
)

// NewLogRotation returns the rotation of logs that reach size bytes, which are kept for
// age, rounded to seconds. A size that is not positive rotates nothing, and then nothing is
// removed either; with an age that is not positive they are kept forever.
func NewLogRotation(size int64, age time.Duration) LogRotation {
	if size <= 0 {
		return LogRotation{}
	}
	return LogRotation{maxBytes: size, maxAge: max(age.Round(time.Second), 0)}
}

// runner returns the arguments of kube-log-runner that run a program and rotate its log.
func (r LogRotation) runner(log, program string) []string {
	arguments := []string{"-log-file=" + log}
	if r.maxBytes > 0 {
		arguments = append(arguments, "-log-file-size="+resource.NewQuantity(r.maxBytes, resource.BinarySI).String())
	}
	if r.maxAge > 0 {
		arguments = append(arguments, "-log-file-age="+r.maxAge.String())
	}
	return append(arguments, program)
}
