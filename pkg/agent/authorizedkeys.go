// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package agent

import (
	"bytes"
	"encoding/base64"
	"encoding/binary"
	"fmt"
	"slices"
	"strings"
)

// publicKey is a public key as sshd compares it.
type publicKey struct{ algorithm, blob string }

// String is the key as a line of its file.
func (k publicKey) String() string {
	return k.algorithm + " " + base64.StdEncoding.EncodeToString([]byte(k.blob))
}

// parsePublicKey reads type, base64, and maybe a comment.
func parsePublicKey(text string) (publicKey, error) {
	words := strings.Fields(text)
	if len(words) < 2 {
		return publicKey{}, fmt.Errorf("%q is not a public key: it has no base64", text)
	}
	blob, err := base64.StdEncoding.DecodeString(words[1])
	if err != nil {
		return publicKey{}, fmt.Errorf("a key of type %q is not base64: %w", words[0], err)
	}
	// It begins with its type, as a string of RFC 4251.
	if len(blob) < 4 || uint64(binary.BigEndian.Uint32(blob)) > uint64(len(blob)-4) || string(blob[4:4+binary.BigEndian.Uint32(blob)]) != words[0] {
		return publicKey{}, fmt.Errorf("a key of type %q has another type in it", words[0])
	}
	return publicKey{words[0], string(blob)}, nil
}

// keyLine is a line of a file of authorized keys that has a key.
type keyLine struct {
	options string
	key     publicKey
}

// parseKeyLine reads a line as sshd does: a key, or options and a key. Lines that do not authorize the key
// itself, but what it has signed, have none.
func parseKeyLine(line []byte) (keyLine, bool) {
	text := strings.TrimLeft(string(bytes.TrimRight(bytes.TrimPrefix(line, byteOrderMark), "\r\n")), " \t")
	if text == "" || text[0] == '#' {
		return keyLine{}, false
	}
	if key, err := parsePublicKey(text); err == nil {
		return keyLine{key: key}, true
	}
	options, rest := cutOptions(text)
	key, err := parsePublicKey(rest)
	if err != nil || hasOption(options, "cert-authority") {
		return keyLine{}, false
	}
	return keyLine{options: options, key: key}, true
}

// cutOptions splits a line behind its options, whose quoted values may have spaces and \".
func cutOptions(text string) (options, rest string) {
	quoted := false
	for i := 0; i < len(text); i++ {
		switch c := text[i]; {
		case c == '\\' && i+1 < len(text) && text[i+1] == '"':
			i++
		case c == '"':
			quoted = !quoted
		case (c == ' ' || c == '\t') && !quoted:
			return text[:i], strings.TrimLeft(text[i:], " \t")
		}
	}
	return text, ""
}

// hasOption says whether options have one that has no value.
func hasOption(options, name string) bool {
	quoted, begin := false, 0
	for i := 0; i <= len(options); i++ {
		switch {
		case i == len(options) || options[i] == ',' && !quoted:
			if strings.EqualFold(options[begin:i], name) {
				return true
			}
			begin = i + 1
		case options[i] == '\\' && i+1 < len(options) && options[i+1] == '"':
			i++
		case options[i] == '"':
			quoted = !quoted
		}
	}
	return false
}

// byteOrderMark is what editors on Windows put before UTF-8.
var byteOrderMark = []byte("\ufeff")

// keyFile is the content of a file of authorized keys. What is not ours in it stays as it is, byte by byte.
type keyFile []byte

// lines are its lines with what ends them.
func (f keyFile) lines() [][]byte { return bytes.SplitAfter(f, []byte("\n")) }

// keys are its lines that have one of the keys.
func (f keyFile) keys(of ...publicKey) []keyLine {
	var out []keyLine
	for _, l := range f.lines() {
		if line, ok := parseKeyLine(l); ok && slices.Contains(of, line.key) {
			out = append(out, line)
		}
	}
	return out
}

// with returns the file with a key, once for each of the options.
func (f keyFile) with(key publicKey, options []string) keyFile {
	end := "\n"
	if bytes.Contains(f, []byte("\r\n")) {
		end = "\r\n"
	}
	out := slices.Clone(f)
	if len(out) > 0 && !bytes.HasSuffix(out, []byte("\n")) {
		out = append(out, end...)
	}
	for _, o := range options {
		out = append(out, strings.TrimLeft(o+" "+key.String(), " ")+end...)
	}
	return out
}

// without returns the file without the lines of keys.
func (f keyFile) without(keys []publicKey) keyFile {
	var out keyFile
	for i, l := range f.lines() {
		line, ok := parseKeyLine(l)
		switch {
		case !ok || !slices.Contains(keys, line.key):
			out = append(out, l...)
		case i == 0 && bytes.HasPrefix(l, byteOrderMark):
			out = append(out, byteOrderMark...)
		}
	}
	return out
}
