// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package main

import (
	"bytes"
	"regexp"
	"strings"

	configv1 "github.com/openshift/api/config/v1"

	"github.com/openshift/windows-instance-api/pkg/desired/userdata"
	"github.com/openshift/windows-instance-api/pkg/wmco"
)

// userDataCase is what machines of a platform run at their first boot, for a public key.
type userDataCase struct {
	Platform  configv1.PlatformType `json:"platform"`
	PublicKey string                `json:"publicKey"`
}

func userDataOf(c userDataCase) result {
	script, err := userdata.Script(c.Platform, c.PublicKey)
	if err != nil {
		return result{Error: err.Error()}
	}
	return result{Output: map[string]any{
		"secret":                     map[string]any{"namespace": wmco.MachineAPINamespace, "name": wmco.UserDataSecret, "dataKey": wmco.UserDataKey},
		"userData":                   string(script),
		"startsWithPowershell":       bytes.HasPrefix(script, []byte("<powershell>")),
		"endsWithPersist":            bytes.HasSuffix(script, []byte("<persist>true</persist>\n")),
		"containsEC2Launch":          bytes.Contains(script, []byte("EC2Launch")),
		"containsKeyLineWithNewline": bytes.Contains(script, []byte(c.PublicKey+"\n")),
	}}
}

// anyKey is one to make user data with that is not about keys.
const anyKey = "ssh-ed25519 AAAA"

// inTags is what is between tags of a launch agent.
var inTags = regexp.MustCompile(`(?s)<powershell>.*</powershell>`)

// userDataTags is how user data of a platform is marked for its launch agent; "*" is every other platform.
func userDataTags(platform string) (string, error) {
	if platform == "*" {
		platform = string(configv1.NonePlatformType)
	}
	script, err := userdata.Script(configv1.PlatformType(platform), anyKey)
	if err != nil {
		return "", err
	}
	if !inTags.Match(script) {
		return "none", nil
	}
	return strings.ReplaceAll(inTags.ReplaceAllString(string(script), "<powershell>..</powershell>"), "\n", `\n`), nil
}

// extraUserData is the version of EC2Launch and its task that user data of a platform has, empty for none.
func extraUserData(platform string) (string, error) {
	script, err := userdata.Script(configv1.PlatformType(platform), anyKey)
	if err != nil {
		return "", err
	}
	version := regexp.MustCompile(`\$minimumEC2Launch = '([0-9.]+)'`).FindSubmatch(script)
	task := regexp.MustCompile(`run-task add-routes --persistent`).Find(script)
	if version == nil {
		return "", nil
	}
	return string(version[1]) + " " + string(task), nil
}
