// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package machineconfig

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// wordsOf splits a command as systemd does (systemd.service(5), "Command lines"): quotes and escapes are resolved. What stands for
// something that only a worker knows, such as ${NAME} and %i, stays as it is.
func wordsOf(command string) ([]string, error) {
	var words []string
	var word []byte // nil: none has begun
	var quote byte  // that the word is within; 0: none
	for rest := command; rest != ""; {
		c := rest[0]
		if c == '\\' {
			var meant []byte
			meant, rest = unescape(rest)
			word = append(word, meant...)
			continue
		}
		rest = rest[1:]
		switch {
		case c == quote:
			quote = 0
		case quote != 0:
			word = append(word, c)
		case c == '"' || c == '\'':
			quote = c
			word = append([]byte{}, word...) // an empty word is one, too
		case strings.IndexByte(" \t", c) < 0:
			word = append(word, c)
		case word != nil:
			words, word = append(words, string(word)), nil
		}
	}
	if quote != 0 {
		return nil, fmt.Errorf("a quote %c is not closed", quote)
	}
	if word != nil {
		words = append(words, string(word))
	}
	return words, nil
}

// unescape returns what the escape at the beginning of a text means, and what follows it. One that is not known stays as it is.
func unescape(text string) (meant []byte, rest string) {
	if len(text) > 1 {
		switch text[1] {
		case 's':
			return []byte{' '}, text[2:]
		case '"', '\'':
			return []byte{text[1]}, text[2:]
		}
	}
	value, multibyte, rest, err := strconv.UnquoteChar(text, 0)
	switch {
	case err != nil:
		return []byte{'\\'}, text[1:]
	case multibyte:
		return []byte(string(value)), rest
	default:
		return []byte{byte(value)}, rest
	}
}

// argumentsOf returns the arguments of a command, by name. Those that are read may be written --name=value and --name value, and any
// name with underscores, as the kubelet takes them. Of several of a name the last one counts.
func argumentsOf(command []string) (map[string]string, error) {
	arguments := map[string]string{}
	for i := 0; i < len(command); i++ {
		argument, ok := strings.CutPrefix(command[i], "--")
		if !ok {
			continue
		}
		name, value, ok := strings.Cut(argument, "=")
		name = strings.ReplaceAll(name, "_", "-")
		if !ok && slices.Contains(argumentsRead, name) { // none of them can be without a value
			if i++; i == len(command) {
				return nil, errors.New("--" + name + " has no value")
			}
			value = command[i]
		}
		arguments[name] = value
	}
	return arguments, nil
}
