// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package host

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"net/http"
	"reflect"
	"slices"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/openshift/windows-instance-api/pkg/agent/api"
)

// A host is not to be believed: whoever owns it decides what its SSH server and a program
// in the place of our agent answer. What they say is bounded before it is kept, and
// cleaned before it gets into an object of the API, a message or a terminal.
const (
	// maxVersionAnswer bounds the answer to "version", which has some 200 bytes.
	maxVersionAnswer = 4 << 10
	// maxName bounds names, versions, addresses and the like, in bytes: no DNS name is longer.
	maxName = 253
	// maxText bounds messages and command lines, in bytes.
	maxText = 4 << 10
	// maxBootID bounds what identifies a boot, in bytes. Ours have less than 40.
	maxBootID = 128
)

// bounds are how large an answer of the agent may be.
type bounds struct {
	// bytes of JSON.
	bytes int
	// objects in it: "{}" is two bytes of JSON and hundreds in memory.
	objects int
	// items in each list and each map, which are cut there.
	items int
}

var (
	// usual are the bounds of most answers. Those of hosts with many adapters and a full
	// list of errors have less than 100 KiB and 200 objects.
	usual = bounds{bytes: 512 << 10, objects: 8 << 10, items: 256}
	// ofPlan are the bounds of what has a plan in it. It has an item for each certificate
	// that a cluster trusts, of which there may be hundreds.
	ofPlan = bounds{bytes: 4 << 20, objects: 8 << 10, items: 8 << 10}
)

// tooLargeError means that a host sent more than we take.
type tooLargeError struct {
	what  string
	limit int
}

// Error implements error.
func (e *tooLargeError) Error() string {
	return fmt.Sprintf("%s has more than %d bytes, which is no answer of our agent", e.what, e.limit)
}

// answerBuffer keeps an answer, and fails when there is more of it than limit.
type answerBuffer struct {
	bytes.Buffer
	what  string
	limit int
}

// Write implements [io.Writer].
func (b *answerBuffer) Write(p []byte) (int, error) {
	if b.Len()+len(p) > b.limit {
		return 0, &tooLargeError{b.what, b.limit}
	}
	return b.Buffer.Write(p)
}

// decodeAnswer reads an answer of the agent, and bounds and cleans what is in it.
func decodeAnswer(data []byte, answer any, b bounds) error {
	if n := bytes.Count(data, []byte("{")); n > b.objects {
		return fmt.Errorf("it has %d objects, more than the %d that an answer of our agent may have", n, b.objects)
	}
	if err := json.Unmarshal(data, answer); err != nil {
		return fmt.Errorf("it cannot be read: %w", err)
	}
	switch answer := answer.(type) {
	case *api.BootFacts:
		return checkBootID(answer.ID)
	case *api.RestartAnswer:
		return checkBootID(answer.BootID)
	case *api.Facts:
		cleanFacts(answer)
	default:
		b.clean(reflect.ValueOf(answer), "")
	}
	return nil
}

// checkBootID refuses what cannot identify a boot. It is compared, so it is never cut.
func checkBootID(id string) error {
	switch {
	case id == "":
		return errors.New("it does not say which boot the host is in")
	case len(id) > maxBootID || cleanText(id, maxBootID) != id:
		return fmt.Errorf("what it calls the boot of the host, %.40q, is no name of one", id)
	}
	return nil
}

// cleanFacts bounds what a host says of itself, so that it fits into the API.
func cleanFacts(f *api.Facts) {
	usual.clean(reflect.ValueOf(f), "")
	f.CPUs = between(f.CPUs, 0, math.MaxInt32)
	f.System.Build = max(f.System.Build, 0)
	f.System.Revision = max(f.System.Revision, 0)
	f.Boot.UptimeSeconds = between(f.Boot.UptimeSeconds, 0, math.MaxInt64/int64(time.Second))
	for i := range f.Network.Interfaces {
		f.Network.Interfaces[i].MTU = between(f.Network.Interfaces[i].MTU, 0, math.MaxInt32)
	}
	f.Network.Listening = slices.DeleteFunc(f.Network.Listening, func(l api.Listener) bool {
		return l.Port < 1 || l.Port > math.MaxUint16
	})
	// The API has them by name.
	seen := map[string]bool{}
	f.Services = slices.DeleteFunc(f.Services, func(s api.Service) bool {
		again := s.Name == "" || seen[s.Name]
		seen[s.Name] = true
		return again
	})
}

func between[T int | int64](n, least, most T) T { return min(max(n, least), most) }

// clean bounds all strings, lists, maps and times below v, which is the field of the given
// name. It goes by the kinds of fields, so that a field that is added is bounded as well.
func (b bounds) clean(v reflect.Value, name string) {
	switch v.Kind() {
	case reflect.Pointer:
		if !v.IsNil() {
			b.clean(v.Elem(), name)
		}
	case reflect.String:
		v.SetString(cleanField(name, v.String()))
	case reflect.Slice:
		if v.Len() > b.items {
			v.Set(v.Slice(0, b.items))
		}
		for i := range v.Len() {
			b.clean(v.Index(i), name)
		}
	case reflect.Map:
		if texts, ok := v.Interface().(map[string]string); ok && texts != nil {
			v.Set(reflect.ValueOf(b.cleanMap(texts)))
		}
	case reflect.Struct:
		if t, ok := v.Interface().(time.Time); ok {
			if !representable(t) {
				v.SetZero()
			}
			return
		}
		for i := range v.NumField() {
			if field := v.Field(i); field.CanSet() {
				b.clean(field, v.Type().Field(i).Name)
			}
		}
	}
}

// cleanField is a string as it may go into the field of a name.
func cleanField(name, s string) string {
	switch name {
	case "Message":
		return cleanText(s, maxText)
	case "Path", "Subject", "Issuer", "Description", "Reason", "Error", "Item": // the path of a service is a command line
		return cleanLine(s, maxText)
	}
	return cleanLine(s, maxName)
}

func (b bounds) cleanMap(texts map[string]string) map[string]string {
	out := make(map[string]string, min(len(texts), b.items))
	for key, value := range texts {
		if len(out) == b.items {
			break
		}
		out[cleanLine(key, maxName)] = cleanLine(value, maxText)
	}
	return out
}

// representable says whether RFC 3339, in which times are in the API, has a form for t in UTC.
func representable(t time.Time) bool {
	year := t.UTC().Year()
	return year >= 1 && year <= 9999
}

// cleanText is s in at most limit bytes and without what is not UTF-8, what terminals act
// upon and what changes the direction of writing. Line ends and tabs stay.
func cleanText(s string, limit int) string {
	cut := len(s) > limit
	if cut {
		end := limit - len(ellipsis)
		for end > 0 && !utf8.RuneStart(s[end]) {
			end--
		}
		s = s[:end]
	}
	s = strings.Map(func(r rune) rune {
		switch {
		case r == '\n' || r == '\t':
			return r
		case r == utf8.RuneError || unicode.IsControl(r) || unicode.Is(unicode.Bidi_Control, r):
			return '?' // of one byte, so that the text does not grow
		}
		return r
	}, s)
	if cut {
		s += ellipsis
	}
	return s
}

// cleanLine is cleanText on one line.
func cleanLine(s string, limit int) string {
	return strings.NewReplacer("\n", " ", "\t", " ").Replace(cleanText(s, limit))
}

// ellipsis ends a text that was cut.
const ellipsis = "…"

// refusals are the answers with which the agent refuses to show a log. Any other one would
// be somebody else's: 401, for example, has clients throw their credentials away.
var refusals = map[int]string{
	http.StatusBadRequest:          "BadRequest",
	http.StatusForbidden:           "Forbidden",
	http.StatusNotFound:            "NotFound",
	http.StatusInternalServerError: "InternalError",
	http.StatusNotImplemented:      "NotImplemented",
	http.StatusServiceUnavailable:  "ServiceUnavailable",
}

// decodeLogHeader reads the first line of a log. The refusal is nil when the log follows.
func decodeLogHeader(line []byte) (refusal *api.LogError, err error) {
	var header api.LogHeader
	if err := json.Unmarshal(line, &header); err != nil {
		return nil, fmt.Errorf("it does not answer as the agent does: %w", err)
	}
	if header.Protocol != api.ProtocolVersion {
		return nil, fmt.Errorf("it speaks version %d of the protocol, and we speak version %d", header.Protocol, api.ProtocolVersion)
	}
	refusal = header.Error
	if refusal == nil {
		return nil, nil //nolint:nilnil // no refusal is what one hopes for
	}
	reason, ok := refusals[refusal.Code]
	if !ok {
		return nil, fmt.Errorf("it refuses with the code %d, which is none of our agent's: %s", refusal.Code, cleanLine(refusal.Message, maxName))
	}
	refusal.Reason = reason
	refusal.Message = cleanText(refusal.Message, maxText)
	refusal.Field = cleanLine(refusal.Field, maxName)
	return refusal, nil
}
