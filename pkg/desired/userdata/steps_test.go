// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package userdata

import (
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	configv1 "github.com/openshift/api/config/v1"
)

var (
	comment = regexp.MustCompile(`(?m)^\s*#.*\n`)
	// A step begins, and ends, at the beginning of a line.
	step = regexp.MustCompile(`(?ms)^Invoke-Step '([^']+)' \{\n(.*?\n)\}$`)
)

// stepsOf returns the names of the steps of a script in their order, what each one does, and what is done in no step. The
// restart of sshd at the end, which is on one line, counts as none.
func stepsOf(t *testing.T, platform configv1.PlatformType) (names []string, do map[string]string, outside string) {
	t.Helper()
	script, err := Script(platform, testKey)
	if err != nil {
		t.Fatal(err)
	}
	text := comment.ReplaceAllString(string(script), "")
	do = map[string]string{}
	for _, match := range step.FindAllStringSubmatch(text, -1) {
		names, do[match[1]] = append(names, match[1]), match[2]
	}
	return names, do, step.ReplaceAllString(text, "")
}

// TestOrderOfSteps: the capability brings a rule of the firewall with the name of ours, so the port is opened after it; sshd has its
// configuration once it was started, and reads what was changed in that when it is restarted.
func TestOrderOfSteps(t *testing.T) {
	want := []string{"Enabling the user", "Installing OpenSSH", "Opening ports of the firewall", "Starting sshd", "Configuring sshd", "Authorizing the key"}
	for _, platform := range []configv1.PlatformType{configv1.AWSPlatformType, configv1.AzurePlatformType, configv1.GCPPlatformType} {
		t.Run(string(platform), func(t *testing.T) {
			names, _, outside := stepsOf(t, platform)
			wantSteps := slices.Clone(want)
			if platform == configv1.AWSPlatformType {
				wantSteps = append(wantSteps, "Keeping routes with EC2Launch")
			}
			if diff := cmp.Diff(wantSteps, names); diff != "" {
				t.Errorf("steps (-want +got):\n%s", diff)
			}
			// A command that fails ends the script, unless a step catches it.
			for _, command := range []string{"Get-LocalUser", "Add-WindowsCapability", "Start-Service", "Set-Service", "icacls", "Set-Content", "Move-Item", "WriteAll"} {
				if strings.Contains(outside, command) {
					t.Errorf("%s is in no step", command)
				}
			}
			if strings.Count(outside, "if ($restart) {\n  Invoke-Step 'Restarting sshd' { Restart-Service -Name sshd -Force }\n}") != 1 {
				t.Error("sshd is not restarted if its configuration was changed")
			}
		})
	}
}

// TestSteps: each step has the commands that matter, in the order that matters.
func TestSteps(t *testing.T) {
	_, do, outside := stepsOf(t, configv1.GCPPlatformType) // which runs it once
	do["outside"] = outside
	for _, tt := range []struct {
		name, step string
		inOrder    []string // parts of regular expressions
		never      string
	}{
		{
			name: "a failure is caught", step: "outside",
			inOrder: []string{`\$ErrorActionPreference = 'Stop'`, `function Invoke-Step \{`, `try \{ & \$Step \} catch \{`},
		},
		{
			name: "ports are open in each profile", step: "outside",
			inOrder: []string{`function Open-Port \{`, `New-NetFirewallRule -Name \$Name .*-Direction Inbound -Action Allow -Protocol TCP -LocalPort \$Port`, `Set-NetFirewallRule -Name \$Name -Enabled True -Profile Any`},
		},
		{
			name: "a user that was disabled gets a random password first", step: "Enabling the user",
			inOrder: []string{
				`'capi'`, `return`, `Get-LocalUser -Name 'Administrator'`, `if \(\$user\.Enabled\) \{ return \}`,
				`\$bytes = New-Object byte\[\] 32`, `RandomNumberGenerator\]::Create\(\)`, `GetBytes\(\$bytes\)`,
				`\$password = ConvertTo-SecureString -String \(\[Convert\]::ToBase64String\(\$bytes\)`, `Set-LocalUser -Password \$password`, `Enable-LocalUser`,
			},
			never: `Write-|Out-File|Set-Content|WriteAll|System\.Random|Get-Random`,
		},
		{
			name: "OpenSSH is installed over a network that is late", step: "Installing OpenSSH",
			inOrder: []string{
				`for \(\$try = 1; \$try -le 10; \$try\+\+\) \{`, `Get-Service -Name sshd -ErrorAction SilentlyContinue\) \{ return \}`, `Start-Sleep -Seconds 5 `,
				`try \{`, `Add-WindowsCapability -Online -Name 'OpenSSH\.Server~~~~0\.0\.1\.0'`, `catch`, `Get-Service -Name sshd \|`,
			},
		},
		{
			name: "of SSH, the kubelet and the exporter", step: "Opening ports of the firewall",
			inOrder: []string{`Open-Port 'OpenSSH-Server-In-TCP' .* 22\n`, `Open-Port 'ContainerLogsPort' .* 10250\n`, `Open-Port 'WindowsExporter' .* 9182\n`},
		},
		{
			name: "sshd is started at each boot", step: "Starting sshd",
			inOrder: []string{`Set-Service -Name sshd -StartupType Automatic`, `Start-Service -Name sshd`},
		},
		{
			name: "keys only, before what the file has for some users", step: "Configuring sshd",
			inOrder: []string{`Get-Content`, `\$after = @\('PubkeyAuthentication yes', 'PasswordAuthentication no'\) \+`, `return \}`, `WriteAllLines`, `\$script:restart = \$true`},
		},
		{
			name: "the key is authorized once for a machine", step: "Authorizing the key",
			inOrder: []string{
				`MachineGuid`, `\$authorized = "\$guid \$authorizedKey"`,
				`Test-Path -LiteralPath \$file\) -and \(Test-Path -LiteralPath \$marker\) -and \(\[IO\.File\]::ReadAllText\(\$marker\) -ceq \$authorized\)\) \{ return \}`,
				// Nobody else may write the file at any time: the rights come before the key.
				`New-Item -ItemType File -Path \$new`, `icacls\.exe \$new /inheritance:r /grant '\*S-1-5-32-544:F' /grant '\*S-1-5-18:F'`, `\$LASTEXITCODE -ne 0\) \{ throw`,
				`Set-Content -LiteralPath \$new -Value \$authorizedKey`, `Move-Item -LiteralPath \$new -Destination \$file -Force`,
				// What failed before is tried again at the next boot.
				`WriteAllText\(\$marker, \$authorized\)`,
			},
			never: `Add-Content|Everyone|S-1-1-0|BUILTIN`,
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			rest := do[tt.step]
			for _, part := range tt.inOrder {
				at := regexp.MustCompile(part).FindStringIndex(rest)
				if at == nil {
					t.Fatalf("%s has no %s after those before it:\n%s", tt.step, part, do[tt.step])
				}
				rest = rest[at[1]:]
			}
			if tt.never != "" {
				if found := regexp.MustCompile(tt.never).FindString(do[tt.step]); found != "" {
					t.Errorf("%s has %s", tt.step, found)
				}
			}
		})
	}
}
