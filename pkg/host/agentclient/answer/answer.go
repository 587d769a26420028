// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

// Package answer reads what the agent on a host answers, and puts it into the words of the
// API. A host is not trusted: its owner decides what its SSH server and a program
// in the place of the agent answer. What they send is bounded before it is kept, and
// cleaned before it gets into an object of the API, a message or a terminal.
//
// It is pure: it must not import what reaches hosts.
package answer

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

const (
	// MaxName bounds names, versions, addresses and the like, in bytes: no DNS name is longer.
	MaxName = 253
	// MaxText bounds messages and command lines, in bytes.
	MaxText = 4 << 10
	// MaxMachineID bounds what identifies a machine, in bytes: the limit of status.machineID. Ours
	// have 73.
	MaxMachineID = 128
	// MaxBootID bounds what identifies a boot, in bytes. Ours have less than 40.
	MaxBootID = 128
)

// Bounds are how large an answer of the agent may be.
type Bounds struct {
	// Bytes of JSON.
	Bytes int
	// Objects in it: "{}" is two bytes of JSON and hundreds in memory.
	Objects int
	// Items in each list and each map, which are cut there.
	Items int
}

var (
	// Usual are the bounds of most answers. Those of hosts with many adapters and a full
	// list of errors have less than 100 KiB and 200 objects.
	Usual = Bounds{Bytes: 512 << 10, Objects: 8 << 10, Items: 256}
	// OfPlan are the bounds of what has a plan in it. It has an item for each certificate
	// that a cluster trusts, of which there may be hundreds.
	OfPlan = Bounds{Bytes: 4 << 20, Objects: 8 << 10, Items: 8 << 10}
)

// TooLargeError means that a host sent more than we take.
type TooLargeError struct {
	// What is too large, and how many bytes it may have.
	What  string
	Limit int
}

// Error implements error.
func (e *TooLargeError) Error() string {
	return fmt.Sprintf("%s has more than %d bytes, more than the agent ever answers", e.What, e.Limit)
}

// Buffer keeps an answer, and fails with a [TooLargeError] when there is more of it than Limit.
type Buffer struct {
	bytes.Buffer
	// What is written to it, and how many bytes it may have.
	What  string
	Limit int
}

// Write implements [io.Writer].
func (b *Buffer) Write(p []byte) (int, error) {
	if b.Len()+len(p) > b.Limit {
		return 0, &TooLargeError{b.What, b.Limit}
	}
	return b.Buffer.Write(p)
}

// Decode reads an answer of the agent, and bounds and cleans what is in it.
func Decode(data []byte, answer any, b Bounds) error {
	if n := bytes.Count(data, []byte("{")); n > b.Objects {
		return fmt.Errorf("it has %d objects, more than the %d that an answer of the agent may have", n, b.Objects)
	}
	if err := json.Unmarshal(data, answer); err != nil {
		return fmt.Errorf("it cannot be read: %w", err)
	}
	switch answer := answer.(type) {
	case *api.BootFacts:
		return checkBootID(answer.ID)
	case *api.RestartAnswer:
		if answer.Refused = Line(answer.Refused, MaxText); answer.Refused != "" {
			return nil // perhaps because the boot cannot be identified
		}
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
		return errors.New("it does not name the boot that the host is in")
	case len(id) > MaxBootID || Text(id, MaxBootID) != id:
		return fmt.Errorf("the identifier of the boot, %.40q, is not valid", id)
	}
	return nil
}

// cleanFacts bounds what a host says of itself, so that it fits into the API.
func cleanFacts(f *api.Facts) {
	Usual.clean(reflect.ValueOf(f), "")
	f.CPUs = Between(f.CPUs, 0, math.MaxInt32)
	f.System.Build = max(f.System.Build, 0)
	f.System.Revision = max(f.System.Revision, 0)
	if u := f.Updates; u != nil {
		u.Total = Between(u.Total, 0, math.MaxInt32)
		u.Security = Between(u.Security, 0, u.Total)
	}
	f.Boot.UptimeSeconds = Between(f.Boot.UptimeSeconds, 0, math.MaxInt64/int64(time.Second))
	for i := range f.Network.Interfaces {
		f.Network.Interfaces[i].MTU = Between(f.Network.Interfaces[i].MTU, 0, math.MaxInt32)
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

// Between is n, or the bound that it is beyond.
func Between[T int | int64](n, least, most T) T { return min(max(n, least), most) }

// clean bounds all strings, lists, maps and times below v, which is the field of the given
// name. It goes by the kinds of fields, so that a field that is added is bounded as well.
func (b Bounds) clean(v reflect.Value, name string) {
	switch v.Kind() {
	case reflect.Pointer:
		if !v.IsNil() {
			b.clean(v.Elem(), name)
		}
	case reflect.String:
		v.SetString(cleanField(name, v.String()))
	case reflect.Slice:
		if v.Len() > b.Items {
			v.Set(v.Slice(0, b.Items))
		}
		for i := range v.Len() {
			b.clean(v.Index(i), name)
		}
	case reflect.Map:
		if texts, ok := reflect.TypeAssert[map[string]string](v); ok && texts != nil {
			v.Set(reflect.ValueOf(b.cleanMap(texts)))
		}
	case reflect.Struct:
		if t, ok := reflect.TypeAssert[time.Time](v); ok {
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
		return Text(s, MaxText)
	case "MachineID":
		return Line(s, MaxMachineID)
	case "Path", "Subject", "Issuer", "Description", "Reason", "Error", "Item": // the path of a service is a command line
		return Line(s, MaxText)
	}
	return Line(s, MaxName)
}

func (b Bounds) cleanMap(texts map[string]string) map[string]string {
	out := make(map[string]string, min(len(texts), b.Items))
	for key, value := range texts {
		if len(out) == b.Items {
			break
		}
		out[Line(key, MaxName)] = Line(value, MaxText)
	}
	return out
}

// representable says whether RFC 3339, in which times are in the API, has a form for t in UTC.
func representable(t time.Time) bool {
	year := t.UTC().Year()
	return year >= 1 && year <= 9999
}

// Text is s in at most limit bytes and without what is not UTF-8, what terminals act
// upon and what changes the direction of writing. Line ends and tabs stay.
func Text(s string, limit int) string {
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

// oneLine has spaces in place of what [Text] leaves that begins lines and columns.
var oneLine = strings.NewReplacer("\n", " ", "\t", " ")

// Line is Text on one line.
func Line(s string, limit int) string {
	return oneLine.Replace(Text(s, limit))
}

// ellipsis ends a text that was cut.
const ellipsis = "…"

// refusals are the answers with which the agent refuses to show a log. Any other one could
// mislead clients: with 401, for example, they discard their credentials.
var refusals = map[int]string{
	http.StatusBadRequest:          "BadRequest",
	http.StatusForbidden:           "Forbidden",
	http.StatusNotFound:            "NotFound",
	http.StatusInternalServerError: "InternalError",
	http.StatusNotImplemented:      "NotImplemented",
	http.StatusServiceUnavailable:  "ServiceUnavailable",
}

// LogHeader reads the first line of a log. The refusal is nil when the log follows.
func LogHeader(line []byte) (refusal *api.LogError, err error) {
	var header api.LogHeader
	if err := json.Unmarshal(line, &header); err != nil {
		return nil, fmt.Errorf("it does not answer as the agent does: %w", err)
	}
	if header.Protocol != api.ProtocolVersion {
		return nil, fmt.Errorf("it uses version %d of the protocol, and version %d is needed", header.Protocol, api.ProtocolVersion)
	}
	refusal = header.Error
	if refusal == nil {
		return nil, nil //nolint:nilnil // no refusal is what one hopes for
	}
	reason, ok := refusals[refusal.Code]
	if !ok {
		return nil, fmt.Errorf("it refuses with the code %d, which the agent does not use: %s", refusal.Code, Line(refusal.Message, MaxName))
	}
	refusal.Reason = reason
	refusal.Message = Text(refusal.Message, MaxText)
	refusal.Field = Line(refusal.Field, MaxName)
	return refusal, nil
}
