// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package document

import (
	"crypto/sha256"
	"crypto/x509"
	"encoding/hex"
	"encoding/pem"
	"fmt"
	"slices"
	"strings"

	"github.com/openshift/windows-instance-api/pkg/agent/api/config"
)

// certificates returns the certificates of a bundle in PEM, each once, by fingerprint. Text between
// the blocks is a comment, as everywhere. A block that cannot be used is left out, with a warning:
// one certificate in a bundle of hundreds, which nobody wrote by hand, must not stop all hosts.
func certificates(bundle []byte) (found []config.Certificate, warnings []string) {
	names := blockNames(string(bundle))
	for number := 1; ; number++ {
		block, rest := pem.Decode(bundle)
		skipped := strings.Count(string(bundle[:len(bundle)-len(rest)]), pemBegin)
		if block == nil {
			skipped = strings.Count(string(bundle), pemBegin)
		} else {
			skipped--
		}
		// The decoder skips blocks that it cannot decode.
		for range skipped {
			warnings = append(warnings, names[number-1]+" is left out: it is damaged")
			number++
		}
		if block == nil {
			break
		}
		bundle = rest
		if block.Type != "CERTIFICATE" {
			warnings = append(warnings, fmt.Sprintf("%s is left out: it is a %q", names[number-1], block.Type))
			continue
		}
		sum := sha256.Sum256(block.Bytes)
		fingerprint := hex.EncodeToString(sum[:])
		certificate, err := x509.ParseCertificate(block.Bytes)
		if err != nil {
			warnings = append(warnings, fmt.Sprintf("%s, the certificate with the SHA-256 fingerprint %s, is left out: %v", names[number-1], fingerprint, err))
			continue
		}
		found = append(found, config.Certificate{
			Store:       config.StoreRoot,
			Fingerprint: fingerprint,
			Subject:     certificate.Subject.String(),
			PEM:         string(pem.EncodeToMemory(&pem.Block{Type: block.Type, Bytes: block.Bytes})),
			// Programs read the store for each verification.
			OnChange: config.OnChange{Impact: config.ImpactNone},
		})
	}
	slices.SortFunc(found, func(a, b config.Certificate) int { return strings.Compare(a.Fingerprint, b.Fingerprint) })
	return slices.CompactFunc(found, func(a, b config.Certificate) bool { return a.Fingerprint == b.Fingerprint }), warnings
}

// pemBegin begins each block.
const pemBegin = "-----BEGIN "

// maxHeading is the length of the longest heading that messages cite; names of hosts are no longer.
const maxHeading = 253

// blockNames returns what messages call the blocks of a bundle: a number, and whose it is where a comment
// above it says so.
func blockNames(bundle string) []string {
	var names []string
	heading := ""
	for line := range strings.Lines(bundle) {
		if comment, ok := strings.CutPrefix(line, "# "); ok {
			if heading = strings.TrimSpace(comment); len(heading) > maxHeading {
				heading = ""
			}
		}
		for range strings.Count(line, pemBegin) {
			name := fmt.Sprintf("block %d", len(names)+1)
			if heading != "" {
				name += " (of " + heading + ")"
			}
			names = append(names, name)
		}
	}
	return names
}
