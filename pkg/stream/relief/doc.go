// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

// Package relief keeps the memory of a server within a budget while hosts send more than the
// clients of its streams take: hosts are held back between two measurements, and streams whose
// clients take too little are asked to end.
//
// It must not import any other package of this module but stream: it knows neither what a stream
// is for nor how many there may be.
package relief
