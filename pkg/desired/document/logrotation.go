// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package document

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/resource"
)

// LogRotation says how the logs of services are rotated, in the words of the settings
// that say it. The zero value rotates nothing.
type LogRotation struct {
	// Size at which a log is rotated, a quantity of bytes. Empty: none.
	size string
	// Age at which a rotated log is removed. Empty: none.
	age string
	// Flush is how often a log is written to the disk. Empty: as the program does.
	flush string
}

// Defaults of the rotation of logs.
const (
	// DefaultLogSize is the size at which a log is rotated, in bytes.
	DefaultLogSize = 100 << 20
	// DefaultLogAge is the age at which a rotated log is removed.
	DefaultLogAge = 7 * 24 * time.Hour
)

// NewLogRotation returns the rotation of logs that reach size bytes, which are kept for
// age, rounded to seconds. A size that is not positive rotates nothing, and then there is
// nothing to remove either; with an age that is not positive they are kept for ever.
func NewLogRotation(size int64, age time.Duration) LogRotation {
	if size <= 0 {
		return LogRotation{}
	}
	r := LogRotation{size: resource.NewQuantity(size, resource.BinarySI).String()}
	if age = age.Round(time.Second); age > 0 {
		r.age = age.String()
	}
	return r
}

// ParseLogRotation reads the settings SERVICES_LOG_FILE_SIZE, SERVICES_LOG_FILE_AGE and
// SERVICES_LOG_FLUSH_INTERVAL. The error says everything that is wrong with them.
func ParseLogRotation(size, age, flush string) (LogRotation, error) {
	r := LogRotation{size: strings.TrimSpace(size), age: strings.TrimSpace(age), flush: strings.TrimSpace(flush)}
	var errs []error
	if r.size != "" {
		if quantity, err := resource.ParseQuantity(r.size); err != nil {
			errs = append(errs, fmt.Errorf("size of logs %q: %w", r.size, err))
		} else if quantity.Sign() < 0 {
			errs = append(errs, fmt.Errorf("size of logs %q is negative", r.size))
		}
	}
	for _, setting := range []struct{ what, value string }{{"age of logs", r.age}, {"flush interval of logs", r.flush}} {
		if setting.value == "" {
			continue
		}
		if _, err := time.ParseDuration(setting.value); err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", setting.what, err))
		} else if strings.HasPrefix(setting.value, "-") {
			errs = append(errs, fmt.Errorf("%s %q is negative", setting.what, setting.value))
		}
	}
	if err := errors.Join(errs...); err != nil {
		return LogRotation{}, err
	}
	return r, nil
}

// runner returns the arguments of kube-log-runner that run a program and rotate its log.
func (r LogRotation) runner(log, program string) []string {
	arguments := []string{"-log-file=" + log}
	for _, setting := range []struct{ flag, value string }{
		{"-log-file-size=", r.size}, {"-log-file-age=", r.age}, {"-flush-interval=", r.flush},
	} {
		if setting.value != "" {
			arguments = append(arguments, setting.flag+setting.value)
		}
	}
	return append(arguments, program)
}

// RunnerCommand returns the command that runs a program and rotates its log.
func (r LogRotation) RunnerCommand(log, program string) string {
	return strings.Join(append([]string{logRunnerPath}, r.runner(log, program)...), " ")
}

// maxBytes returns the size in bytes. Zero: none.
func (r LogRotation) maxBytes() int64 {
	if r.size == "" {
		return 0
	}
	quantity := resource.MustParse(r.size) // it was parsed before
	return quantity.Value()
}

// maxAge returns the age. Zero: none.
func (r LogRotation) maxAge() time.Duration {
	age, err := time.ParseDuration(r.age)
	if err != nil { // it is empty
		return 0
	}
	return age
}

// MegabytesOf returns the size of a log in megabytes, rounded up, for programs that
// want it so. It is an error for size to be empty.
func MegabytesOf(size string) (int64, error) {
	if size == "" {
		return 0, errors.New("the size is empty")
	}
	quantity, err := resource.ParseQuantity(size)
	if err != nil {
		return 0, fmt.Errorf("size %q: %w", size, err)
	}
	megabytes := quantity.ScaledValue(resource.Mega)
	if megabytes < 0 {
		return 0, fmt.Errorf("size %q is negative", size)
	}
	return megabytes, nil
}
