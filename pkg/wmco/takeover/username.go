// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package takeover

import (
	"bytes"
	"crypto"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/ProtonMail/go-crypto/openpgp"
	"github.com/ProtonMail/go-crypto/openpgp/armor"
	"github.com/ProtonMail/go-crypto/openpgp/packet"
)

const (
	// armorType is the type of the armored block.
	armorType = "ENCRYPTED DATA"
	// newlineMarker stands for a newline in an annotation: WMCO strips the first and
	// the last line of the block and joins the others by it.
	newlineMarker = "<wmcoMarker>"
	// maxUsername bounds what a decrypted message may hold, in bytes. Windows allows
	// 104 characters for the longest form of a user name.
	maxUsername = 1024
)

// DecryptUsername returns the user in a value of UsernameAnnotation. The value is
// a symmetrically encrypted OpenPGP message whose passphrase is the whole PEM text
// of the private key. Both spellings are understood: the current one, where the
// armor lines are stripped and newlines replaced, and the full armor of WMCO 3.1
// and before. The error does not contain any of the value.
func DecryptUsername(value string, privateKeyPEM []byte) (string, error) {
	block, err := armor.Decode(strings.NewReader(restoreArmor(value)))
	if err != nil {
		return "", fmt.Errorf("the value is no armored OpenPGP message: %w", err)
	}
	if block.Type != armorType {
		return "", fmt.Errorf("the armored block is of type %q, want %q", block.Type, armorType)
	}
	asked := false
	prompt := func([]openpgp.Key, bool) ([]byte, error) {
		if asked { // a second call would get the same answer, and so on
			return nil, errors.New("it was encrypted with another private key")
		}
		asked = true
		return privateKeyPEM, nil
	}
	message, err := openpgp.ReadMessage(block.Body, openpgp.EntityList{}, prompt, nil)
	if err != nil {
		return "", fmt.Errorf("decrypt: %w", err)
	}
	// Reading to the end also verifies that the message was not tampered with.
	plain, err := io.ReadAll(io.LimitReader(message.UnverifiedBody, maxUsername+1))
	if err != nil {
		return "", fmt.Errorf("decrypt: %w", err)
	}
	if len(plain) > maxUsername {
		return "", fmt.Errorf("the message is longer than %d bytes, which no user name is", maxUsername)
	}
	return string(plain), nil
}

// EncryptUsername returns a value of UsernameAnnotation for a user, in the current spelling. It is another one each time.
func EncryptUsername(user string, privateKeyPEM []byte) (string, error) {
	if user == "" || len(user) > maxUsername {
		return "", fmt.Errorf("a user has from 1 to %d bytes", maxUsername)
	}
	var armored bytes.Buffer
	block, err := armor.Encode(&armored, armorType, nil)
	if err != nil {
		return "", fmt.Errorf("begin the armored block: %w", err)
	}
	// The ciphers of RFC 4880, as the library of WMCO knows no others.
	message, err := openpgp.SymmetricallyEncrypt(block, privateKeyPEM, nil, &packet.Config{DefaultHash: crypto.SHA256, DefaultCipher: packet.CipherAES256})
	if err != nil {
		return "", fmt.Errorf("encrypt: %w", err)
	}
	if _, err := io.WriteString(message, user); err != nil {
		return "", fmt.Errorf("encrypt: %w", err)
	}
	for _, c := range []io.Closer{message, block} {
		if err := c.Close(); err != nil {
			return "", fmt.Errorf("end the message: %w", err)
		}
	}
	text := strings.TrimPrefix(armored.String(), "-----BEGIN "+armorType+"-----")
	text = strings.TrimSuffix(strings.TrimSpace(text), "-----END "+armorType+"-----")
	return strings.ReplaceAll(strings.TrimSpace(text), "\n", newlineMarker), nil
}

// restoreArmor turns the value of an annotation into a complete armored block.
func restoreArmor(value string) string {
	text := strings.TrimSpace(strings.ReplaceAll(value, newlineMarker, "\n"))
	if strings.HasPrefix(text, "-----BEGIN ") {
		return text
	}
	return "-----BEGIN " + armorType + "-----\n\n" + text + "\n-----END " + armorType + "-----"
}
