// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package apiserver

import (
	"strings"
	"testing"

	"github.com/spf13/pflag"
)

func TestOptionsValidate(t *testing.T) {
	certificate := []string{"--tls-cert-file=a", "--tls-private-key-file=b"}
	for _, test := range []struct {
		name     string
		flags    []string
		want     string // part of the error; empty: valid
		embedded bool
	}{
		{"embedded etcd", certificate, "", true},
		{"own etcd", append([]string{"--etcd-servers=https://etcd:2379", "--data-dir="}, certificate...), "", false},
		{"nowhere to store", append([]string{"--data-dir="}, certificate...), "--data-dir must be set", true},
		{"a certificate of its own", nil, "", true},
		{"no certificate", certificate[1:], "--tls-cert-file", true},
		{"no key", certificate[:1], "--tls-private-key-file", true},
		{"negative limit", append([]string{"--max-log-streams-per-user=-1"}, certificate...), "must not be negative", true},
		{"negative limit of queries", append([]string{"--max-queries-per-host=-1"}, certificate...), "--max-queries", true},
		{"negative session limit", append([]string{"--max-sessions=-1"}, certificate...), "--max-sessions", true},
		{"negative number of objects", append([]string{"--max-objects-per-namespace=-1"}, certificate...), "--max-objects-per-namespace", true},
		{"no port", append([]string{"--port-forward-ports=3389,70000"}, certificate...), "70000 is no port", true},
		{"recording nowhere", append([]string{"--session-recording-required"}, certificate...), "needs --session-recording-dir", true},
		{"recording to what is not there", append([]string{"--session-recording-dir=/does/not/exist"}, certificate...), "--session-recording-dir", true},
		{"recording to a file", append([]string{"--session-recording-dir=options.go"}, certificate...), "is no directory", true},
		{"recording of a negative size", append([]string{"--session-recording-max-size=-1Gi"}, certificate...), "must not be negative", true},
		{"recording to a directory", append([]string{"--session-recording-dir=.", "--session-recording-required"}, certificate...), "", true},
		{"negative timeout", append([]string{"--stream-drain-timeout=-1s"}, certificate...), "--stream-drain-timeout", true},
	} {
		t.Run(test.name, func(t *testing.T) {
			o := NewOptions()
			flags := pflag.NewFlagSet("test", pflag.ContinueOnError)
			o.AddFlags(flags)
			if err := flags.Parse(test.flags); err != nil {
				t.Fatal(err)
			}
			err := o.Validate()
			if test.want == "" && err != nil || test.want != "" && (err == nil || !strings.Contains(err.Error(), test.want)) {
				t.Errorf("got %v, want %q", err, test.want)
			}
			if got := o.EmbeddedStorage(); got != test.embedded {
				t.Errorf("brings its own etcd: %v", got)
			}
		})
	}
}

// The answers that nobody reads leave others room in the one connection of kube-apiserver: its
// window is 1 GiB, of which each stream takes up to 4 MiB.
func TestUnreadAnswersLeaveRoom(t *testing.T) {
	const connection, stream = 1 << 30, 4 << 20
	if most := NewOptions().Recommended.SecureServing.HTTP2MaxStreamsPerConnection; most <= 0 || most*stream >= connection {
		t.Errorf("a connection takes %d streams", most)
	}
}
