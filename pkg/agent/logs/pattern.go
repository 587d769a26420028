// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package logs

import (
	"io"
	"regexp"
	"unicode/utf8"
)

const (
	// stepsAtOnce is for how long a match goes on by itself, in instructions: a fraction of a
	// second. A longer one can be ended, which makes it slower.
	stepsAtOnce = 4 << 20
	// charactersAtOnce is after how many characters a long match looks whether it is to end.
	charactersAtOnce = 256
)

// pattern is a regular expression that records are searched for.
type pattern struct {
	re           *regexp.Regexp
	instructions int
}

// match says whether the pattern matches in text. ended says that ended did, so that it is not
// known.
func (p *pattern) match(text []byte, ended func() bool) (matched, unknown bool) {
	if len(text)*p.instructions <= stepsAtOnce {
		return p.re.Match(text), false
	}
	r := &endableText{text: text, ended: ended}
	matched = p.re.MatchReader(r)
	return matched, r.over
}

// endableText is a text that ends early when it is to.
type endableText struct {
	text  []byte
	ended func() bool
	read  int
	over  bool
}

// ReadRune implements [io.RuneReader].
func (r *endableText) ReadRune() (rune, int, error) {
	if r.read++; r.read%charactersAtOnce == 0 && r.ended() {
		r.over = true
	}
	if r.over || len(r.text) == 0 {
		return 0, 0, io.EOF
	}
	c, n := utf8.DecodeRune(r.text)
	r.text = r.text[n:]
	return c, n, nil
}
