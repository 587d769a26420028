// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package windows

import (
	"errors"
	"strings"
	"testing"

	"github.com/openshift/windows-instance-api/pkg/agent/updates"
)

// TestAdviceAboutUpdates: what administrators have to do about Windows Update is in the error.
func TestAdviceAboutUpdates(t *testing.T) {
	for code, want := range map[hresultError]string{
		0x8024402c: "netsh winhttp", 0x80240438: "WSUS", 0x8024002e: `SOFTWARE\Policies\Microsoft\Windows\WindowsUpdate`,
		0x80070422: "sc.exe config wuauserv start= demand", 0x80073712: "/RestoreHealth", 0x80240017: "HRESULT 0x80240017",
	} {
		if text := code.Error(); !strings.Contains(text, want) {
			t.Errorf("%#x: got %q", uint32(code), text)
		}
	}
}

// TestFeatureWithoutFiles: on a host without Windows Update, the error says what to do.
func TestFeatureWithoutFiles(t *testing.T) {
	for code, want := range map[hresultError]bool{0x800f0950: true, 0x800f081f: true, 0x80004005: false} {
		text := code.Error()
		if strings.Contains(text, `Install-WindowsFeature NAME -Source D:\sources\sxs`) != want {
			t.Errorf("got %q", text)
		}
	}
}

// TestNotBegun: what Windows refuses because of something else says nothing about the updates that were to be installed. A service that stops
// in the middle of an installation may have been stopped by them.
func TestNotBegun(t *testing.T) {
	for code, want := range map[hresultError]struct{ install, download bool }{
		0x80240016: {true, true}, 0x80240009: {true, true}, 0x80240001: {true, true}, 0x800706ba: {true, true}, 0x800706bf: {true, true},
		0x800706be: {false, true}, 0x8024001e: {false, true},
		0x80240013: {}, 0x80073712: {}, 0x800f0922: {},
	} {
		if install, download := code.notBegun(), code.downloadNotBegun(); install != want.install || download != want.download {
			t.Errorf("%#x: an installation %v, a download %v", uint32(code), install, download)
		}
	}
}

// TestBusyCodes: some codes say that Windows installs something else, which is no failure, however often it happens.
func TestBusyCodes(t *testing.T) {
	for code, want := range map[hresultError]bool{0x80240016: true, 0x80240009: true, 0x80240001: false, 0x800706ba: false, 0x80240013: false} {
		if got := errors.Is(callError(code, hresultError.notBegun), updates.ErrBusy); got != want {
			t.Errorf("%#x: %v", uint32(code), got)
		}
	}
}

// TestServiceStoppedCodes: some codes say that the service ended in the middle of an installation, as it does when the host is shut down.
func TestServiceStoppedCodes(t *testing.T) {
	for code, want := range map[hresultError]bool{0x8024001e: true, 0x800706be: true, 0x800706ba: false, 0x80240016: false} {
		if got := errors.Is(callError(code, hresultError.notBegun), updates.ErrServiceStopped); got != want {
			t.Errorf("%#x: %v", uint32(code), got)
		}
	}
}
