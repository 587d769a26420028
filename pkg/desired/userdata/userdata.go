// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

// Package userdata says what new virtual machines run when they boot for the first time, so that
// windows-controller can log in to them. It is a pure function of the platform and of the public key of the
// operator: what differs from it is drift.
package userdata

import (
	_ "embed"
	"fmt"
	"regexp"
	"strings"

	configv1 "github.com/openshift/api/config/v1"
)

// MinimumEC2Launch is the first version of EC2Launch that keeps the routes to the metadata service, also beside
// the interface of the overlay network, as WMCO requires it.
const MinimumEC2Launch = "2.0.2107"

// The script, by what it is about. It has no text of others but the key.
var (
	//go:embed openssh.ps1
	openSSH string
	//go:embed ec2launch.ps1
	ec2Launch string
)

// publicKey is a type and a key in base64. Neither can end the string of the script that they are put into.
var publicKey = regexp.MustCompile(`^[a-z0-9][a-z0-9@.-]* [A-Za-z0-9+/]+=*$`)

// Script is the user data of machines of a platform. The key is the public one, as <type> <base64>.
//
// Launch agents of most platforms want PowerShell between tags, and run it at each boot if they are told to
// persist it. GCP runs the text as it is, once.
func Script(platform configv1.PlatformType, key string) ([]byte, error) {
	if !publicKey.MatchString(key) {
		return nil, fmt.Errorf("%q is no public key as <type> <base64>", key)
	}
	var script strings.Builder
	fmt.Fprintf(&script, "$authorizedKey = @'\n%s\n'@\n", key)
	script.WriteString(openSSH)
	if platform == configv1.AWSPlatformType {
		fmt.Fprintf(&script, "$minimumEC2Launch = '%s'\n", MinimumEC2Launch)
		script.WriteString(ec2Launch)
	}
	if platform == configv1.GCPPlatformType {
		return []byte(script.String()), nil
	}
	return []byte("<powershell>\n" + script.String() + "</powershell>\n<persist>true</persist>\n"), nil
}

// IsOfWMCO says whether user data was written by WMCO, whose Secret says so nowhere else.
func IsOfWMCO(script []byte) bool {
	text := string(script)
	return strings.Contains(text, "Get-RandomPassword") && strings.Contains(text, "OpenSSH.Server~~~~") && strings.Contains(text, "administrators_authorized_keys")
}
