// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package userdata

import (
	"regexp"
	"strings"
	"testing"

	configv1 "github.com/openshift/api/config/v1"
)

const testKey = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIE4qJS2mKXYrE7qkYBHcGu2D0pVxLeHg8Gc8dOQ5vGvN"

// maxAWS is how many bytes of user data AWS takes.
const maxAWS = 16 << 10

func TestScript(t *testing.T) {
	for _, platform := range []configv1.PlatformType{
		configv1.AWSPlatformType, configv1.AzurePlatformType, configv1.GCPPlatformType, configv1.VSpherePlatformType, configv1.NutanixPlatformType, configv1.NonePlatformType,
	} {
		t.Run(string(platform), func(t *testing.T) {
			script, err := Script(platform, testKey)
			if err != nil {
				t.Fatal(err)
			}
			text := string(script)
			if again, err := Script(platform, testKey); err != nil || string(again) != text {
				t.Errorf("it differs from time to time, %v", err)
			}
			if len(text) > maxAWS {
				t.Errorf("it has %d bytes", len(text))
			}
			tags := platform != configv1.GCPPlatformType
			if got := strings.HasPrefix(text, "<powershell>\n") && strings.HasSuffix(text, "\n</powershell>\n<persist>true</persist>\n"); got != tags {
				t.Errorf("it has tags: %t, want %t", got, tags)
			}
			if want := map[bool]int{true: 4, false: 0}[tags]; len(regexp.MustCompile(`</?(powershell|persist)>`).FindAllString(text, -1)) != want {
				t.Errorf("a launch agent finds other tags than %d", want)
			}
			if got := strings.Contains(text, "EC2Launch"); got != (platform == configv1.AWSPlatformType) {
				t.Errorf("it has EC2Launch: %t", got)
			}
			// As text in which PowerShell replaces nothing.
			if strings.Count(text, testKey) != 1 || !strings.Contains(text, "$authorizedKey = @'\n"+testKey+"\n'@\n") {
				t.Error("the key is not in it, or elsewhere, too")
			}
			if IsOfWMCO(script) {
				t.Error("it is taken for that of WMCO")
			}
		})
	}
}

// TestScriptTakesKeysOnly: nothing gets into the script that could be more than a key.
func TestScriptTakesKeysOnly(t *testing.T) {
	for _, key := range []string{
		"", "ssh-ed25519", "ssh-ed25519 ", testKey + "\n", testKey + "\n'@\nRemove-Item C:\\ -Recurse", testKey + " comment", "a'b AAAA", "ssh-ed25519 AA'AA",
		"ssh-ed25519 </powershell>", `command="x" ` + testKey, "-oX AAAA", "ssh-ed25519 AAAA=A",
	} {
		if script, err := Script(configv1.AWSPlatformType, key); err == nil {
			t.Errorf("%q is in %.60q", key, script)
		}
	}
	for _, key := range []string{"ssh-rsa AAAA==", "ecdsa-sha2-nistp256 A+/9", "sk-ssh-ed25519@openssh.com AAAA"} {
		if _, err := Script(configv1.AWSPlatformType, key); err != nil {
			t.Error(err)
		}
	}
}

func TestIsOfWMCO(t *testing.T) {
	theirs := "<powershell>function Get-RandomPassword {\n}\nAdd-WindowsCapability -Online -Name OpenSSH.Server~~~~0.0.1.0\n$path = \"$env:ProgramData\\ssh\\administrators_authorized_keys\"\n</powershell>"
	for text, want := range map[string]bool{theirs: true, "": false, strings.ReplaceAll(theirs, "Get-RandomPassword", "Get-Password"): false} {
		if got := IsOfWMCO([]byte(text)); got != want {
			t.Errorf("%.40q: got %t, want %t", text, got, want)
		}
	}
}
