// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package fault

import (
	"encoding/json"
	"reflect"
	"strings"
	"testing"
	"time"
)

func TestValidate(t *testing.T) {
	for _, tc := range []struct {
		name  string
		fault Fault
		want  string // part of the error
	}{
		{"healthy", Fault{}, ""},
		{"every stage", Fault{ResetAt: StageAccept, HangAt: StageExec}, ""},
		{"unknown stage", Fault{ResetAt: "lunch"}, `ResetAt: unknown stage "lunch"`},
		{"negative duration", Fault{Latency: -time.Second}, "Latency: must not be negative"},
		{"negative count", Fault{CutAfterBytes: -1}, "CutAfterBytes"},
		{"bad expression", Fault{ExecMatch: "("}, "ExecMatch"},
		{"all at once", Fault{HangAt: "x", MaxSessions: -1}, "HangAt: unknown stage \"x\"\nMaxSessions"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			err := tc.fault.Validate()
			if tc.want == "" && err != nil || tc.want != "" && (err == nil || !strings.Contains(err.Error(), tc.want)) {
				t.Errorf("got %v, want %q", err, tc.want)
			}
		})
	}
}

func TestSessionLimit(t *testing.T) {
	for _, tc := range []struct {
		name  string
		fault Fault
		want  int
	}{
		{"default of sshd", Fault{}, 10},
		{"given", Fault{MaxSessions: 3}, 3},
		{"none", Fault{MaxSessions: 3, RefuseSessions: true}, 0},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if got := tc.fault.SessionLimit(); got != tc.want {
				t.Errorf("got %d, want %d", got, tc.want)
			}
		})
	}
}

func TestMatchesExec(t *testing.T) {
	for _, tc := range []struct {
		name, match, line string
		want              bool
	}{
		{"every command", "", "anything", true},
		{"a part", "facts$", `C:\agent.exe facts`, true},
		{"another", "facts$", `C:\agent.exe logs`, false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if got := (Fault{ExecMatch: tc.match}).MatchesExec(tc.line); got != tc.want {
				t.Errorf("got %v, want %v", got, tc.want)
			}
		})
	}
}

// TestJSON: every field reaches the server inside a Wine host.
func TestJSON(t *testing.T) {
	var want Fault
	v := reflect.ValueOf(&want).Elem()
	for i := range v.NumField() {
		switch f := v.Field(i); f.Kind() {
		case reflect.Bool:
			f.SetBool(true)
		case reflect.String:
			f.SetString("text")
		default:
			f.SetInt(int64(i + 1))
		}
	}
	b, err := json.Marshal(want)
	if err != nil {
		t.Fatal(err)
	}
	var got Fault
	if err := json.Unmarshal(b, &got); err != nil {
		t.Fatal(err)
	}
	if got != want {
		t.Errorf("got %+v, want %+v", got, want)
	}
}
