// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package agentclient

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"unicode"

	"github.com/openshift/windows-instance-api/pkg/agent/api/config"
	"github.com/openshift/windows-instance-api/pkg/host/ssh"
)

// minSecret is how long a word of a secret has to be to be hidden. Shorter ones are found in
// ordinary sentences, and in the JSON of every answer; tokens and keys are longer.
const minSecret = 12

// encodedPiece is how much of an encoded secret is hidden at a time.
const encodedPiece = 32

// redactor removes secrets from what a host sends. The agent never sends any, but a program in its
// place, or a message of a library, might, and what a host sends gets into objects and logs.
type redactor struct{ replacer *strings.Replacer }

// redactorOf hides the words of the secrets of a bundle; nil has none. What its document says openly is no
// secret: a kubeconfig has the name of its user in it, which may be part of that of a program.
func redactorOf(bundle *config.Bundle) redactor {
	var pairs []string
	plain := ""
	hide := func(word string) {
		if len(word) >= minSecret && !strings.Contains(plain, word) {
			pairs = append(pairs, word, redacted)
		}
	}
	if bundle != nil {
		// Without it more is hidden, which is the safe side.
		if text, err := json.Marshal(bundle.Document); err == nil {
			plain = string(text)
		}
		for _, secret := range bundle.Secrets {
			for _, word := range strings.FieldsFunc(string(secret), separatesWords) {
				hide(word)
			}
			// As it travels. Only part of it may be repeated.
			for piece := range slices.Chunk([]byte(base64.StdEncoding.EncodeToString(secret)), encodedPiece) {
				hide(string(piece))
			}
		}
	}
	return redactor{strings.NewReplacer(pairs...)}
}

// redacted stands for a secret. It may be put into the middle of JSON.
const redacted = "[redacted]"

// separatesWords says which characters are around secrets in the files that hold them: YAML,
// JSON and addresses with a user and a password.
func separatesWords(r rune) bool {
	return unicode.IsSpace(r) || strings.ContainsRune(`"'\`+"`,:;@<>()[]{}", r)
}

// text is what a host says without secrets.
func (r redactor) text(s string) string { return r.replacer.Replace(s) }

// failure is an error without secrets in what a program wrote to its standard error.
func (r redactor) failure(err error) error {
	if exit, ok := errors.AsType[*ssh.ExitError](err); ok {
		exit.Stderr = r.text(exit.Stderr) // each Wait makes its own
	}
	return err
}
