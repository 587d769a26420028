// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package document

// Validate is what Publish asks of what it is about to return.
func (p *PublishedServices) Validate() error { return p.validate() }

// Runner returns the arguments of the program that runs another one and rotates its log.
func (r LogRotation) Runner(log, program string) []string { return r.runner(log, program) }
