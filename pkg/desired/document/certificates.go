// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package document

import (
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"slices"
	"strings"

	"github.com/openshift/windows-instance-api/pkg/agent/api/config"
)

// UsableCertificates returns the certificates of a bundle in PEM that can be used, in PEM, and says of each other block what is
// wrong with it. Text between the blocks is a comment, as everywhere. A bundle that can be used as a whole is
// returned as it is, with its comments. Nil: it has no certificate that can be used.
//
// Some programs refuse a whole file because of one certificate that they cannot parse, and one of hundreds, which nobody
// wrote by hand, must not stop all hosts.
func UsableCertificates(bundle []byte) (usable []byte, damaged []string) {
	found, whole, damaged := certificates(bundle)
	if len(found) == 0 {
		return nil, damaged
	}
	if whole && len(damaged) == 0 {
		return bundle, nil
	}
	for i := range found {
		usable = append(usable, found[i].PEM...)
	}
	return usable, damaged
}

// certificates returns the certificates of a bundle in PEM, in its order, and says of each other block what is wrong with it.
// They are whole if each has its PEM in the bundle: many programs ignore blocks with headers.
func certificates(bundle []byte) (found []config.Certificate, whole bool, damaged []string) {
	names := blockNames(string(bundle))
	whole = true
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
			damaged = append(damaged, names[number-1]+" is left out: it is damaged")
			number++
		}
		if block == nil {
			break
		}
		bundle = rest
		if block.Type != "CERTIFICATE" {
			damaged = append(damaged, fmt.Sprintf("%s is left out: it is a %q", names[number-1], block.Type))
			continue
		}
		fingerprint := config.Fingerprint(block.Bytes)
		certificate, err := x509.ParseCertificate(block.Bytes)
		if err != nil {
			damaged = append(damaged, fmt.Sprintf("%s, the certificate with the SHA-256 fingerprint %s, is left out: %v", names[number-1], fingerprint, err))
			continue
		}
		whole = whole && len(block.Headers) == 0
		found = append(found, config.Certificate{
			Store:       config.StoreRoot,
			Fingerprint: fingerprint,
			Subject:     certificate.Subject.String(),
			PEM:         string(pem.EncodeToMemory(&pem.Block{Type: block.Type, Bytes: block.Bytes})),
			// Programs read the store for each verification.
			OnChange: config.OnChange{Impact: config.ImpactNone},
		})
	}
	return found, whole, damaged
}

// once returns each certificate once, by fingerprint.
func once(certificates []config.Certificate) []config.Certificate {
	slices.SortFunc(certificates, func(a, b config.Certificate) int { return strings.Compare(a.Fingerprint, b.Fingerprint) })
	return slices.CompactFunc(certificates, func(a, b config.Certificate) bool { return a.Fingerprint == b.Fingerprint })
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
