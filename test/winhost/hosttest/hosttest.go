// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

// Package hosttest makes host stand-ins part of a test: it starts them, ends them with the
// test, and says what to do where a tier is not to be had. Its own tests are the contract
// of the stand-ins: one list of behaviors, run against every tier.
package hosttest

import (
	"os"
	"strings"
	"testing"
	"time"

	"golang.org/x/crypto/ssh"

	"github.com/openshift/windows-instance-api/test/winhost"
)

// Require fails the test if hosts of a tier cannot be started on this machine. Whoever
// accepts that says so by WINHOST_WITHOUT_WINE=1 (or …_OPENSSH), and the test is skipped.
func Require(tb testing.TB, tier string) {
	tb.Helper()
	err := winhost.Available(tier)
	if err == nil {
		return
	}
	variable := "WINHOST_WITHOUT_" + strings.ToUpper(tier)
	if os.Getenv(variable) == "1" {
		tb.Skipf("%s=1: %v", variable, err)
	}
	tb.Fatalf("%v\n(%s=1 leaves these tests out)", err, variable)
}

// Start starts a host that is closed with the test. The host's own log goes to that of the
// test.
func Start(tb testing.TB, o winhost.Options) winhost.Host {
	tb.Helper()
	if o.Tier != "" {
		Require(tb, o.Tier)
	}
	h, err := winhost.Start(tb.Context(), o)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() {
		if err := h.Close(); err != nil {
			tb.Error(err)
		}
	})
	return h
}

// NewKey makes a client's key.
func NewKey(tb testing.TB) ssh.Signer {
	tb.Helper()
	_, signer, err := winhost.NewKey()
	if err != nil {
		tb.Fatal(err)
	}
	return signer
}

// patience is how long anything may take: Wine boots in half a second, and in minutes on a machine that does much else.
const patience = 5 * time.Minute

// Eventually polls a condition until it holds; what says what is waited for.
func Eventually(tb testing.TB, what string, condition func() bool) {
	tb.Helper()
	tick, limit := time.NewTicker(10*time.Millisecond), time.NewTimer(patience)
	defer tick.Stop()
	defer limit.Stop()
	for !condition() {
		select {
		case <-tick.C:
		case <-limit.C:
			tb.Fatalf("gave up waiting until %s", what)
		}
	}
}
