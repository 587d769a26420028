// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package document

import (
	"crypto/sha256"
	"crypto/x509"
	"encoding/hex"
	"encoding/pem"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/openshift/windows-instance-api/pkg/agent/api/config"
)

// certificates returns the certificates of a bundle in PEM, each once, by fingerprint.
// Text between the blocks is a comment, as everywhere; a block that is not a certificate, or
// is cut off, is an error.
func certificates(bundle []byte) ([]config.Certificate, error) {
	var found []config.Certificate
	for number := 1; ; number++ {
		block, rest := pem.Decode(bundle)
		if block == nil {
			break
		}
		// The decoder skips a block that it cannot decode. No block may begin before the one that it
		// found.
		if skipped := bundle[:len(bundle)-len(rest)]; strings.Count(string(skipped), "-----BEGIN ") != 1 {
			return nil, fmt.Errorf("block %d of the bundle is damaged", number)
		}
		bundle = rest
		if block.Type != "CERTIFICATE" {
			return nil, fmt.Errorf("block %d of the bundle is a %q", number, block.Type)
		}
		certificate, err := x509.ParseCertificate(block.Bytes)
		if err != nil {
			return nil, fmt.Errorf("block %d of the bundle: %w", number, err)
		}
		sum := sha256.Sum256(block.Bytes)
		found = append(found, config.Certificate{
			Store:       config.StoreRoot,
			Fingerprint: hex.EncodeToString(sum[:]),
			Subject:     certificate.Subject.String(),
			PEM:         string(pem.EncodeToMemory(&pem.Block{Type: block.Type, Bytes: block.Bytes})),
			// Programs read the store for each verification.
			OnChange: config.OnChange{Impact: config.ImpactNone},
		})
	}
	if strings.Contains(string(bundle), "-----BEGIN ") {
		return nil, errors.New("the last block of the bundle is damaged")
	}
	slices.SortFunc(found, func(a, b config.Certificate) int { return strings.Compare(a.Fingerprint, b.Fingerprint) })
	return slices.CompactFunc(found, func(a, b config.Certificate) bool { return a.Fingerprint == b.Fingerprint }), nil
}
