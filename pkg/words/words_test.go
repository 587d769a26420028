// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package words

import "testing"

func TestEnumerate(t *testing.T) {
	for want, texts := range map[string][]string{"": nil, "a": {"a"}, "a, b": {"a", "b"}, "a, b and 1 more": {"a", "b", "c"}, "a, b and 2 more": {"a", "b", "c", "d"}} {
		if got := Enumerate(texts, 2); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}

func TestCount(t *testing.T) {
	for n, want := range map[int]string{0: "0 hosts have", 1: "1 host has", 2: "2 hosts have"} {
		if got := Count(n, "host") + " " + Form(n, "has", "have"); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}

func TestFirstSentence(t *testing.T) {
	for text, want := range map[string]string{
		"":                   "",
		"It failed":          "It failed",
		"It failed.":         "It failed",
		"It failed. Do this": "It failed",
		"10.1.42.5:22 does not answer, e.g. for a firewall. Open it.": "10.1.42.5:22 does not answer, e.g. for a firewall",
		"It failed:\nno room.\nDo this.":                              "It failed:",
	} {
		if got := FirstSentence(text); got != want {
			t.Errorf("of %q it is %q, want %q", text, got, want)
		}
	}
}

func TestSteady(t *testing.T) {
	for text, want := range map[string]string{
		"":                           "",
		"connection refused":         "connection refused",
		"win-1 -> win-2, 10.0.0.1:1": "win-1 -> win-2, 10.0.0.1:1",
		"lookup win-1 on 172.30.0.10:53: read udp 10.128.0.5:45321->172.30.0.10:53: i/o timeout":                "lookup win-1 on 172.30.0.10:53: read udp 172.30.0.10:53: i/o timeout",
		"read tcp [fd01::5]:45321->[fd02::1]:443: reset, write tcp [fe80::1%eth0]:1->[fe80::2%eth0]:22: closed": "read tcp [fd02::1]:443: reset, write tcp [fe80::2%eth0]:22: closed",
	} {
		if got := Steady(text); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}

func TestOneLine(t *testing.T) {
	if got := OneLine(" a\r\n b\tc  d\n"); got != "a b c d" {
		t.Errorf("got %q", got)
	}
}

func TestDeniedByWebhook(t *testing.T) {
	for text, want := range map[string]bool{
		"": false,
		`admission webhook "w.example.com" denied the request: not now`:                                                        true,
		`admission webhook "w.example.com" denied the request without explanation`:                                             true,
		`Internal error occurred: failed calling webhook "w.example.com": no endpoints`:                                        false,
		`pods "web" is forbidden: ValidatingAdmissionPolicy 'p' with binding 'b' denied request: never`:                        false,
		`pods "web" is forbidden: it says admission webhook "w.example.com" denied the request, and is no answer of a webhook`: false,
	} {
		if got := DeniedByWebhook(text); got != want {
			t.Errorf("of %q it is %v", text, got)
		}
	}
}
