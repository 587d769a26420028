// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package ssh

import (
	"crypto/x509"
	"encoding/pem"
	"fmt"

	"golang.org/x/crypto/cryptobyte"
	"golang.org/x/crypto/cryptobyte/asn1"
)

// maxRSABits is the most that OpenSSH accepts.
const maxRSABits = 16384

// checkKeySize refuses an RSA key that takes minutes or days to read: crypto/x509 computes with its
// numbers before it finds out whether they belong together, and who writes a Secret need not be
// trusted. What cannot be decoded is left to the parser, and so is the format of OpenSSH, whose
// parser has such limits.
func checkKeySize(text, passphrase []byte) error {
	block, _ := pem.Decode(text)
	if block == nil {
		return nil
	}
	der := block.Bytes
	if x509.IsEncryptedPEMBlock(block) { //nolint:staticcheck // people have such keys
		var err error
		if der, err = x509.DecryptPEMBlock(block, passphrase); err != nil { //nolint:staticcheck // as above
			return nil //nolint:nilerr // the parser reports it
		}
	}
	if block.Type == "PRIVATE KEY" {
		der = unwrapPKCS8(der)
	}
	// RSAPrivateKey of RFC 8017: version, modulus, public and private exponent, then the primes and
	// what follows from them. Keys of other types have no such numbers.
	input, sequence := cryptobyte.String(der), cryptobyte.String(nil)
	if !input.ReadASN1(&sequence, asn1.SEQUENCE) {
		return nil
	}
	for i := 0; sequence.PeekASN1Tag(asn1.INTEGER); i++ {
		var number cryptobyte.String
		if !sequence.ReadASN1(&number, asn1.INTEGER) {
			return nil
		}
		limit := maxRSABits
		if i > 3 {
			limit /= 2
		}
		if len(number) > limit/8+1 { // a zero may come first
			return fmt.Errorf("%w: it has a number of %d bits, which no RSA key of at most %d bits has", ErrKeyFormat, 8*len(number), maxRSABits)
		}
	}
	if sequence.PeekASN1Tag(asn1.SEQUENCE) {
		return fmt.Errorf("%w: RSA with more than two primes", ErrKeyFormat)
	}
	return nil
}

// unwrapPKCS8 returns the key in a PrivateKeyInfo of RFC 5208, nil if there is none.
func unwrapPKCS8(der []byte) []byte {
	input, info, key := cryptobyte.String(der), cryptobyte.String(nil), cryptobyte.String(nil)
	if !input.ReadASN1(&info, asn1.SEQUENCE) || !info.SkipASN1(asn1.INTEGER) || !info.SkipASN1(asn1.SEQUENCE) || !info.ReadASN1(&key, asn1.OCTET_STRING) {
		return nil
	}
	return key
}
