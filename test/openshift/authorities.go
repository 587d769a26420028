// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package openshift

import (
	"crypto/ed25519"
	"crypto/rsa"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"math/big"
	"strings"
	"sync"
	"time"
)

// systemAuthorities is how many authorities the image of the network operator trusts, about.
const systemAuthorities = 140

// SystemAuthorities are what the network operator trusts itself, which it writes wherever the authorities of the cluster are
// wanted, whatever an administrator adds. They are as many and as large as those of a real system, and the same ones in each process.
var SystemAuthorities = sync.OnceValue(func() string {
	private := ed25519.NewKeyFromSeed(make([]byte, ed25519.SeedSize))
	// Nobody has the key of it, which costs nothing this way. Half of the real ones are twice as long.
	modulus := new(big.Int).SetBytes([]byte(strings.Repeat("\xa5", 2048/8)))
	var bundle strings.Builder
	for n := range int64(systemAuthorities) {
		name := fmt.Sprintf("Example Root CA %d", n)
		der, err := x509.CreateCertificate(nil, &x509.Certificate{
			SerialNumber: big.NewInt(n + 1), Subject: pkix.Name{Country: []string{"XX"}, Organization: []string{"Example Trust Services"}, CommonName: name},
			NotBefore: time.Date(2020, 1, 1, 0, 0, 0, 0, time.UTC), NotAfter: time.Date(2045, 1, 1, 0, 0, 0, 0, time.UTC), IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
			SubjectKeyId: []byte(name),
			// As long as the signature of such a key is.
			ExtraExtensions: []pkix.Extension{{Id: []int{1, 3, 6, 1, 4, 1, 99999, 1}, Value: make([]byte, 4096/8)}},
		}, &x509.Certificate{}, &rsa.PublicKey{N: modulus, E: 65537}, private)
		if err != nil {
			panic(err) // all of it is above
		}
		fmt.Fprintf(&bundle, "# %s\n", name)
		if err := pem.Encode(&bundle, &pem.Block{Type: "CERTIFICATE", Bytes: der}); err != nil {
			panic(err)
		}
	}
	return bundle.String()
})
