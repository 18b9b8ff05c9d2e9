/**
 * In lower case: the most frequent breached passwords, and common words with a recent year. Passwords of fewer than 8
 * characters are missing, because they are rejected anyway.
 */
export const COMMON_PASSWORDS: ReadonlySet<string> = new Set(
  `00000000 000000000 0123456789 0987654321 10203040 102030405 11111111 111111111 1111111111
  111222333 112233445566 11223344 12121212 12312312 123123123 123321123 1234554321 123456123456
  12345678 123456789 1234567890 12345678910 12344321 123456789a 1234567891 12345678a 12345qwert
  123456qwerty 123abc123 123qweasd 13131313 147258369 147852369 159357159 18atcskd2w 1q2w3e4r
  1q2w3e4r5t 1q2w3e4r5t6y 1qaz2wsx 1qaz2wsx3edc 1qazxsw2 20202020 22222222 23456789 33333333
  44444444 55555555 66666666 77777777 777777777 78945612 789456123 87654321 88888888 963852741
  987654321 9876543210 98765432 99999999 999999999 a1234567 a12345678 a123456789 aa12345678
  aaaaaaaa abc12345 abcd1234 abcdefgh abcdefghi abcdefg1 abcd12345 administrator admin123 admin1234
  adminadmin alexander anthony1 arsenal1 asdasdasd asdf1234 asdfasdf asdfghjk asdfghjkl babygirl
  barcelona baseball basketball blink182 butterfly changeme charlie1 chocolate christian computer
  consumer corvette cristina danielle dragon123 dubsmash dupacham elizabeth facebook fernando
  football football1 freedom1 fuckyou1 gabriela garfield gwerty123 hallo123 hello123 iloveyou
  iloveyou1 iloveyou2 internet jennifer jessica1 jonathan juventus killer123 letmein1 letmein123
  liverpool liverpool1 lol123456 london123 manchester marlboro maverick mercedes metallica michael1
  michelle midnight mustang1 mypassword myspace1 newpassword nicholas nintendo p@$$w0rd p@ssw0rd
  pa$$w0rd pass1234 passw0rd password password1 password12 password123 password1234 password!
  password2 passwort passwort1 patricia pokemon1 pokemon123 princess princess1 q1w2e3r4 q1w2e3r4t5
  q1w2e3r4t5y6 qazwsx123 qazwsxedc qqww1122 qwer1234 qwerasdf qwertyui qwertyuiop qwerty12 qwerty123
  qwerty1234 qwerty12345 qwerty123456 qwert12345 rockstar samantha sebastian secret123 secret1234
  september sexy1234 shadow12 slipknot snoopy123 spiderman starwars stephanie strawberry summer2023
  summer2024 summer2025 summer2026 sunshine sunshine1 superman superman1 superstar target123
  test1234 test12345 testtest tinkerbell trustno1 valentina vanessa1 veronica victoria welcome1
  welcome123 welcome2024 welcome2025 welcome2026 wg8e3wjf whatever william1 winter2024 winter2025
  winter2026 wortwort yugioh12 yuantuo2012 zaq12wsx zaq1zaq1 zinch123 zxcvbnm1 zxcvbnm123
  zxcvbnm,`.split(/\s+/),
)
