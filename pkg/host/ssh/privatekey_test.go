// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package ssh_test

import (
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/asn1"
	"encoding/pem"
	"errors"
	"math/big"
	"strings"
	"testing"

	"golang.org/x/crypto/ssh"

	hostssh "github.com/openshift/windows-instance-api/pkg/host/ssh"
)

func TestParsePrivateKey(t *testing.T) {
	_, ed, err := ed25519.GenerateKey(rand.Reader)
	must(t, err)
	ec, err := ecdsa.GenerateKey(elliptic.P384(), rand.Reader)
	must(t, err)
	rsa2048, err := rsa.GenerateKey(rand.Reader, 2048)
	must(t, err)
	rsa1024, err := rsa.GenerateKey(rand.Reader, 1024)
	must(t, err)
	pkcs8, err := x509.MarshalPKCS8PrivateKey(ed)
	must(t, err)
	sec1, err := x509.MarshalECPrivateKey(ec)
	must(t, err)
	legacy, err := x509.EncryptPEMBlock(rand.Reader, "RSA PRIVATE KEY", x509.MarshalPKCS1PrivateKey(rsa2048), []byte("right"), x509.PEMCipherAES256) //nolint:staticcheck // people have such keys
	must(t, err)
	// To compute with such a prime takes days.
	endless, err := asn1.Marshal(struct {
		Version       int
		N, E, D, P, Q *big.Int
	}{0, big.NewInt(15), big.NewInt(3), big.NewInt(3), new(big.Int).SetBit(big.NewInt(1), 1<<20, 1), big.NewInt(5)})
	must(t, err)
	wrapped, err := x509.MarshalPKCS8PrivateKey(rsa2048)
	must(t, err)
	endlessWrapped, err := asn1.Marshal(struct {
		Version   int
		Algorithm pkix.AlgorithmIdentifier
		Key       []byte
	}{0, pkix.AlgorithmIdentifier{Algorithm: asn1.ObjectIdentifier{1, 2, 840, 113549, 1, 1, 1}, Parameters: asn1.NullRawValue}, endless})
	must(t, err)
	endlessEncrypted, err := x509.EncryptPEMBlock(rand.Reader, "RSA PRIVATE KEY", endless, []byte("right"), x509.PEMCipherAES256) //nolint:staticcheck // as above
	must(t, err)
	threePrimes, err := asn1.Marshal(struct {
		Version                   int
		N, E, D, P, Q, Dp, Dq, Qi *big.Int
		Others                    []struct{ R, D, T *big.Int }
	}{1, big.NewInt(105), big.NewInt(5), big.NewInt(29), big.NewInt(3), big.NewInt(5), big.NewInt(1), big.NewInt(1), big.NewInt(2),
		[]struct{ R, D, T *big.Int }{{big.NewInt(7), big.NewInt(5), big.NewInt(1)}}})
	must(t, err)
	encrypted := openSSH(t, ed, "right")
	public := string(ssh.MarshalAuthorizedKey(newSigner(t, ssh.KeyAlgoED25519).PublicKey()))

	tests := []struct {
		name       string
		pem        string
		passphrase string
		wantType   string
		wantErr    error
		says       string
	}{
		{name: "Ed25519", pem: openSSH(t, ed, ""), wantType: ssh.KeyAlgoED25519},
		{name: "ECDSA", pem: openSSH(t, ec, ""), wantType: ssh.KeyAlgoECDSA384},
		{name: "RSA", pem: openSSH(t, rsa2048, ""), wantType: ssh.KeyAlgoRSA},
		{name: "PKCS#1", pem: block("RSA PRIVATE KEY", x509.MarshalPKCS1PrivateKey(rsa2048)), wantType: ssh.KeyAlgoRSA},
		{name: "PKCS#8", pem: block("PRIVATE KEY", pkcs8), wantType: ssh.KeyAlgoED25519},
		{name: "SEC 1", pem: block("EC PRIVATE KEY", sec1), wantType: ssh.KeyAlgoECDSA384},
		{name: "Windows line ends", pem: strings.ReplaceAll(openSSH(t, ed, ""), "\n", "\r\n"), wantType: ssh.KeyAlgoED25519},
		{name: "passphrase that is not needed", pem: openSSH(t, ed, ""), passphrase: "x", wantType: ssh.KeyAlgoED25519},
		{name: "encrypted", pem: encrypted, passphrase: "right", wantType: ssh.KeyAlgoED25519},
		{name: "encrypted in the old format", pem: string(pem.EncodeToMemory(legacy)), passphrase: "right", wantType: ssh.KeyAlgoRSA},
		{name: "no passphrase", pem: encrypted, wantErr: hostssh.ErrPassphraseMissing},
		{name: "wrong passphrase", pem: encrypted, passphrase: "wrong", wantErr: hostssh.ErrPassphraseWrong},
		{name: "wrong passphrase for the old format", pem: string(pem.EncodeToMemory(legacy)), passphrase: "wrong", wantErr: hostssh.ErrPassphraseWrong},
		{name: "RSA with 1024 bits", pem: block("RSA PRIVATE KEY", x509.MarshalPKCS1PrivateKey(rsa1024)), wantErr: hostssh.ErrWeakKey, says: "1024"},
		{name: "RSA in PKCS#8", pem: block("PRIVATE KEY", wrapped), wantType: ssh.KeyAlgoRSA},
		{name: "RSA that nobody computes with", pem: block("RSA PRIVATE KEY", endless), wantErr: hostssh.ErrKeyFormat, says: "16384"},
		{name: "the same in PKCS#8", pem: block("PRIVATE KEY", endlessWrapped), wantErr: hostssh.ErrKeyFormat, says: "16384"},
		{name: "the same, encrypted", pem: string(pem.EncodeToMemory(endlessEncrypted)), passphrase: "right", wantErr: hostssh.ErrKeyFormat, says: "16384"},
		{name: "RSA with three primes", pem: block("RSA PRIVATE KEY", threePrimes), wantErr: hostssh.ErrKeyFormat, says: "primes"},
		{name: "DSA", pem: dsaKey(t), wantErr: hostssh.ErrWeakKey, says: "DSA"},
		{name: "empty", pem: " \n", wantErr: hostssh.ErrKeyFormat, says: "empty"},
		{name: "PuTTY", pem: "PuTTY-User-Key-File-3: ssh-ed25519\nEncryption: none\n", wantErr: hostssh.ErrKeyFormat, says: "puttygen"},
		{name: "public key", pem: public, wantErr: hostssh.ErrKeyFormat, says: "public key"},
		{name: "public key of another program", pem: "---- BEGIN SSH2 PUBLIC KEY ----\nx\n---- END SSH2 PUBLIC KEY ----\n", wantErr: hostssh.ErrKeyFormat, says: "public key"},
		{name: "public key in PEM", pem: block("PUBLIC KEY", []byte("x")), wantErr: hostssh.ErrKeyFormat, says: "public key"},
		{name: "encrypted PKCS#8", pem: block("ENCRYPTED PRIVATE KEY", []byte("x")), wantErr: hostssh.ErrKeyFormat, says: "ssh-keygen"},
		{name: "base64 only", pem: "b3BlbnNzaC1rZXktdjEA", wantErr: hostssh.ErrKeyFormat, says: "-----BEGIN"},
		{name: "truncated", pem: encrypted[:len(encrypted)/2], wantErr: hostssh.ErrKeyFormat},
		{name: "another PEM", pem: block("CERTIFICATE", []byte("x")), wantErr: hostssh.ErrKeyFormat},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			signer, err := hostssh.ParsePrivateKey([]byte(tt.pem), []byte(tt.passphrase))
			if !errors.Is(err, tt.wantErr) {
				t.Fatalf("got error %v, want %v", err, tt.wantErr)
			}
			if err != nil {
				if !strings.Contains(err.Error(), tt.says) {
					t.Errorf("%q does not say %q", err, tt.says)
				}
				return
			}
			if got := signer.PublicKey().Type(); got != tt.wantType {
				t.Errorf("got a key of type %s, want %s", got, tt.wantType)
			}
			if fp := hostssh.Fingerprint(signer.PublicKey()); !strings.HasPrefix(fp, "SHA256:") {
				t.Errorf("fingerprint %q", fp)
			}
			if m, ok := signer.(ssh.MultiAlgorithmSigner); ok && tt.wantType == ssh.KeyAlgoRSA {
				for _, a := range m.Algorithms() {
					if a == ssh.KeyAlgoRSA {
						t.Error("the signer would sign SHA-1")
					}
				}
			}
		})
	}
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func block(kind string, der []byte) string {
	return string(pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}))
}

func openSSH(t testing.TB, key any, passphrase string) string {
	t.Helper()
	var b *pem.Block
	var err error
	if passphrase == "" {
		b, err = ssh.MarshalPrivateKey(key, "")
	} else {
		b, err = ssh.MarshalPrivateKeyWithPassphrase(key, "", []byte(passphrase))
	}
	must(t, err)
	return string(pem.EncodeToMemory(b))
}

func dsaKey(t testing.TB) string {
	t.Helper()
	// Numbers of the right size are enough to be taken for a key; finding real ones takes seconds.
	number := func(bits uint) *big.Int { return new(big.Int).SetBit(big.NewInt(1), int(bits)-1, 1) }
	der, err := asn1.Marshal(struct {
		Version       int
		P, Q, G, Y, X *big.Int
	}{0, number(1024), number(160), number(1000), number(1000), number(100)})
	must(t, err)
	return block("DSA PRIVATE KEY", der)
}
